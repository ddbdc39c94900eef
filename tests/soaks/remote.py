class Remote: pass
