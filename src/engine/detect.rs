//! TBD detect
