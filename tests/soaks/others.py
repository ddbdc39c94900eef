class Callable: pass
class Refused: pass
