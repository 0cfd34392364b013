"""Chapter 3: Overparametrised linear regression and kernel regression."""
