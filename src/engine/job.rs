//! TBD job
