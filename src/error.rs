//! Errors that name the operation and the path.
