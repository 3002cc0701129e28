//! TBD parse
