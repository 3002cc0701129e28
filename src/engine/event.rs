//! TBD event
