//! The data of the correctness checks and the CPU's answer to them.
//!
//! Values are whole numbers small enough that every sum is exact in every data type, so that got and
//! expected must be equal whatever the order of the additions.

use serde::{Deserialize, Serialize};

use super::plan::Op;

/// Data types that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit float.
    Float32,
    /// 16-bit brain float (NCCL 2.10 and later).
    Bfloat16,
    /// 32-bit integer.
    Int32,
}

impl Dtype {
    /// `ncclDataType_t` (`src/nccl.h.in`).
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::Int32 => 2,
            Self::Float32 => 7,
            Self::Bfloat16 => 9,
        }
    }

    /// Bytes of an element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Float32 | Self::Int32 => 4,
            Self::Bfloat16 => 2,
        }
    }

    /// Its name in NCCL's and PyTorch's words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
            Self::Int32 => "int32",
        }
    }

    /// Values as bytes.
    #[must_use]
    pub fn encode(self, values: impl Iterator<Item = i32>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in values {
            #[expect(clippy::cast_precision_loss, reason = "values are below 2^24")]
            let float = value as f32;
            match self {
                Self::Float32 => bytes.extend_from_slice(&float.to_le_bytes()),
                Self::Int32 => bytes.extend_from_slice(&value.to_le_bytes()),
                // The upper half of a float; small whole numbers have nothing in the lower one.
                Self::Bfloat16 => bytes.extend_from_slice(&float.to_le_bytes()[2..]),
            }
        }
        bytes
    }

    /// The element at `at`, as a number.
    #[must_use]
    pub fn decode(self, bytes: &[u8], at: usize) -> f64 {
        let element = &bytes[at * self.size()..(at + 1) * self.size()];
        match (self, element) {
            (Self::Float32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            (Self::Int32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
            (Self::Bfloat16, &[a, b]) => f64::from(f32::from_le_bytes([0, 0, a, b])),
            _ => f64::NAN,
        }
    }
}

/// An element that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Differs {
    /// Which.
    pub element: u64,
    /// What it is; a word in JSON where it is no number, since JSON has none for that.
    #[serde(with = "any_float")]
    pub got: f64,
    /// What it should be.
    pub expected: f64,
}

impl Differs {
    /// The first of these (got, expected) that differ. What is no number differs from every number.
    #[must_use]
    pub fn first(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        (0..).zip(pairs).find_map(|(element, (got, expected))| {
            #[expect(clippy::float_cmp, reason = "whole numbers, exact in every data type")]
            let differs = got != expected;
            differs.then_some(Self {
                element,
                got,
                expected,
            })
        })
    }
}

/// A float as a number, or as `NaN`, `inf` or `-inf`.
mod any_float {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Word(String),
    }

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        let written = if value.is_finite() {
            Written::Number(*value)
        } else {
            Written::Word(value.to_string())
        };
        written.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(value) => Ok(value),
            Written::Word(word) => word.parse().map_err(D::Error::custom),
        }
    }
}

/// How a reduction combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Sum.
    Sum,
    /// Maximum.
    Max,
}

/// One check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is called.
    pub op: Op,
    /// On what.
    pub dtype: Dtype,
    /// How it combines, where it does.
    pub reduce: Reduce,
    /// Elements of each rank's part.
    pub count: usize,
}

/// Elements of a rank's part: odd on purpose, and more than one chunk of every protocol.
const COUNT: usize = 262_147;

/// bfloat16 holds whole numbers up to 256.
const BFLOAT_RANKS: u32 = 255;

/// The checks for these operations among so many ranks.
#[must_use]
pub fn checks(ops: &[Op], ranks: u32) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut add = |op, dtype, reduce| {
        // Sums of more ranks would round, and a rounded sum proves nothing.
        if dtype == Dtype::Bfloat16 && ranks > BFLOAT_RANKS {
            return;
        }
        checks.push(Check {
            op,
            dtype,
            reduce,
            count: COUNT,
        });
    };
    for op in ops {
        match op {
            Op::AllReduce => {
                for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Int32] {
                    add(*op, dtype, Reduce::Sum);
                    add(*op, dtype, Reduce::Max);
                }
            }
            Op::ReduceScatter => add(*op, Dtype::Float32, Reduce::Sum),
            _ => add(*op, Dtype::Int32, Reduce::Sum),
        }
    }
    checks
}

impl Check {
    /// Elements that a rank sends.
    #[must_use]
    pub fn sends(&self, ranks: u32) -> usize {
        match self.op {
            Op::ReduceScatter | Op::AllToAll => self.count * ranks as usize,
            _ => self.count,
        }
    }

    /// Elements that a rank gets.
    #[must_use]
    pub fn gets(&self, ranks: u32) -> usize {
        match self.op {
            Op::AllGather | Op::AllToAll => self.count * ranks as usize,
            _ => self.count,
        }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> String {
        let reduce = match (self.op, self.reduce) {
            (Op::AllReduce | Op::ReduceScatter, Reduce::Sum) => " sum",
            (Op::AllReduce | Op::ReduceScatter, Reduce::Max) => " max",
            _ => "",
        };
        format!("{}{reduce} {}", self.op.name(), self.dtype.name())
    }

    /// What `rank` sends.
    #[must_use]
    pub fn input(&self, rank: u32, ranks: u32) -> Vec<u8> {
        self.dtype
            .encode((0..self.sends(ranks)).map(|at| value(rank, at, ranks)))
    }

    /// What `rank` has to get at `at`.
    fn expected(&self, rank: u32, ranks: u32, at: usize) -> i32 {
        let all = |at: usize| {
            let values = (0..ranks).map(|from| value(from, at, ranks));
            match self.reduce {
                Reduce::Sum => values.sum(),
                Reduce::Max => values.max().unwrap_or_default(),
            }
        };
        let part = u32::try_from(at / self.count).unwrap_or(u32::MAX);
        let own = rank as usize * self.count;
        match self.op {
            Op::AllReduce => all(at),
            Op::ReduceScatter => all(own + at),
            Op::Broadcast => value(0, at, ranks),
            Op::SendRecv => value((rank + ranks - 1) % ranks, at, ranks),
            Op::AllGather => value(part, at % self.count, ranks),
            Op::AllToAll => value(part, own + at % self.count, ranks),
        }
    }

    /// The first element that is wrong.
    #[must_use]
    pub fn first_wrong(&self, rank: u32, ranks: u32, got: &[u8]) -> Option<Differs> {
        let pair = |at| {
            let expected = f64::from(self.expected(rank, ranks, at));
            (self.dtype.decode(got, at), expected)
        };
        Differs::first((0..self.gets(ranks)).map(pair))
    }
}

/// Whether a check of this name only passes data on, from one rank straight to another.
#[must_use]
pub fn is_direct(name: &str) -> bool {
    [Op::SendRecv, Op::AllToAll]
        .iter()
        .any(|op| name.starts_with(op.name()))
}

/// The rank that an element came from, where the check of this name tells.
#[must_use]
pub fn sender(name: &str, rank: u32, ranks: u32, element: u64) -> Option<u32> {
    if name.starts_with(Op::SendRecv.name()) {
        return Some((rank + ranks.max(1) - 1) % ranks.max(1));
    }
    let from = u32::try_from(element / COUNT as u64).ok()?;
    name.starts_with(Op::AllToAll.name()).then_some(from)
}

/// A small whole number, like a random one but the same everywhere (splitmix64). The sum over up to 255
/// ranks stays below 2⁸, which bfloat16 holds exactly.
fn value(rank: u32, at: usize, ranks: u32) -> i32 {
    let most = (BFLOAT_RANKS / ranks.max(1)).clamp(1, 63);
    let mut x = (u64::from(rank) << 40 ^ at as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    i32::try_from((x ^ (x >> 31)) % u64::from(most + 1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operation as a CPU would do it on the ranks' inputs.
    fn simulate(check: &Check, rank: u32, ranks: u32) -> Vec<u8> {
        let inputs: Vec<Vec<u8>> = (0..ranks).map(|r| check.input(r, ranks)).collect();
        let (size, n) = (check.dtype.size(), check.count);
        let piece = |from: u32, start: usize| {
            inputs[from as usize][start * size..(start + n) * size].to_vec()
        };
        let own = rank as usize * n;
        match check.op {
            Op::AllReduce | Op::ReduceScatter => {
                let start = if check.op == Op::AllReduce { 0 } else { own };
                let combine = |at: usize| {
                    let values = inputs.iter().map(|i| check.dtype.decode(i, start + at));
                    let value = match check.reduce {
                        Reduce::Sum => values.sum::<f64>(),
                        Reduce::Max => values.fold(f64::MIN, f64::max),
                    };
                    #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
                    let value = value as i32;
                    value
                };
                check.dtype.encode((0..n).map(combine))
            }
            Op::Broadcast => piece(0, 0),
            Op::SendRecv => piece((rank + ranks - 1) % ranks, 0),
            Op::AllGather => (0..ranks).flat_map(|from| piece(from, 0)).collect(),
            Op::AllToAll => (0..ranks).flat_map(|from| piece(from, own)).collect(),
        }
    }

    #[test]
    fn right_answers_pass_and_one_wrong_element_is_found() {
        for ranks in [2, 3, 8] {
            for mut check in checks(&Op::ALL, ranks) {
                check.count = 101;
                for rank in 0..ranks {
                    let mut got = simulate(&check, rank, ranks);
                    assert_eq!(
                        check.first_wrong(rank, ranks, &got),
                        None,
                        "{}",
                        check.name()
                    );
                    let last = got.len() - check.dtype.size();
                    got[last + check.dtype.size() - 1] ^= 0x40;
                    let wrong = check.first_wrong(rank, ranks, &got).expect("wrong");
                    assert_eq!(
                        wrong.element as usize,
                        check.gets(ranks) - 1,
                        "{}",
                        check.name()
                    );
                }
            }
        }
    }
}
