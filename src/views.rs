//! What people and programs see: reports, JSON and the dashboard, all made from a snapshot alone.
//!
//! **Architecture invariant:** no byte of a log reaches a terminal except through [`escape`].

pub mod doctor;
pub mod dry;
pub mod escape;
pub mod json;
pub mod report;
pub mod selftest;
pub mod tui;
pub mod words;
