//! Nothing of its own: the package exists to build its dependency.
