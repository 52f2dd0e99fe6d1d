"""Jobs on scenes of a log, and run folders: locked by one process, resumable after a kill, checked by receipts."""
