//! TBD cause
