"""A compiler from one Mixture-of-Experts layer to one persistent Ascend kernel."""
