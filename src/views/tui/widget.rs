//! Pieces that screens are made of.

pub(super) mod finding;
pub(super) mod grid;
pub(super) mod header;
pub(super) mod overlay;
pub(super) mod palette;
pub(super) mod pen;
pub(super) mod timebar;
