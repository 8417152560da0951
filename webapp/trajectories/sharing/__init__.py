"""Share links of trajectories, players embedded in other sites, and the public data of a trajectory."""
