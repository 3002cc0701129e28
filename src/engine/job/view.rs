//! The job as the views see it.
