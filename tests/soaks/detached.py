class Detached: pass
