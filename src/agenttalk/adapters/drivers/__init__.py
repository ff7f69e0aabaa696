"""How agents are driven: programs that are started, fed, watched and ended with everything that they started."""
