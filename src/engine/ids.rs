//! Typed indices: what an integer means is in its type.

/// Declares a `u32` newtype that indexes a vector.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The place in the vector that this index belongs to.
            #[must_use]
            pub fn ix(self) -> usize {
                self.0 as usize
            }

            /// The index of the `n`th element.
            ///
            /// # Panics
            /// Above 2³² elements, which no input reaches.
            #[must_use]
            pub fn from_ix(n: usize) -> Self {
                Self(u32::try_from(n).expect("fewer than 2^32 elements"))
            }
        }
    };
}

index!(
    /// A stream of bytes: one file, standard input, one journal member.
    SourceId
);
index!(
    /// A writer of lines within one source: see [`crate::engine::demux::Writer`].
    WriterIx
);
index!(
    /// A host, by the name it prints (short and fully qualified names are one host).
    HostIx
);
index!(
    /// A communicator, matched across ranks.
    CommIx
);
index!(
    /// A rule of the catalog.
    RuleIx
);
