"""Rows of curvature: Hessians, tangent kernels, gradient noise, features, width."""
