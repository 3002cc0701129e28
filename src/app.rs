//! Wires sources, engine and views together.
