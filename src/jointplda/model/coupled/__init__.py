"""The coupled levels: the posterior of the latents that elimination leaves, by one of two solvers."""
