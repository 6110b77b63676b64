"""Child processes of a worker or a farm: started, watched, stopped, and recorded so that none is left behind."""
