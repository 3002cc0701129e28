//! User settings.
