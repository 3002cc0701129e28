//! Reads the pickles that PyTorch's recorder writes, and no others.
//!
//! `torch::jit::Pickler` writes protocol 2 with some twenty opcodes; a dump saved again by Python has
//! those of protocols 2 to 5. All of them only build plain values. Whatever would import, call or
//! build anything else is refused by name and place. Nothing is ever executed.

use super::DumpError;
use super::tree::{Node, SALVAGED, Tree, Val, Values};
use crate::engine::limits;

/// Reads a pickle: its values, and the one on top at the end. Of one that is cut, what is whole.
pub(super) fn read(bytes: &[u8]) -> Result<Values<'_>, DumpError> {
    let mut machine = Machine {
        bytes,
        at: 0,
        tree: Tree::over(bytes),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
    };
    let (top, cut) = match machine.run() {
        Ok(top) => (top, false),
        Err(cut @ DumpError::Cut { .. }) => (machine.salvage().ok_or(cut)?, true),
        Err(error) => return Err(error),
    };
    let tree = machine.tree;
    Ok(Values { tree, top, cut })
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    tree: Tree<'a>,
    stack: Vec<Val>,
    marks: Vec<usize>,
    memo: Vec<Option<Val>>,
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Val, DumpError> {
        loop {
            let at = self.at;
            let code = self.byte()?;
            match code {
                b'}' => {
                    let node = self.tree.node()?;
                    self.push(Val::Dict(node))?;
                }
                b']' | b')' => {
                    let node = self.tree.node()?;
                    self.push(Val::List(node))?;
                }
                b'(' => {
                    if self.marks.len() >= limits::DUMP_DEPTH {
                        return Err(DumpError::TooMuch {
                            what: "lists in each other",
                            most: limits::DUMP_DEPTH,
                        });
                    }
                    self.marks.push(self.stack.len());
                }
                b'u' => self.extend(at, true)?,
                b'e' => self.extend(at, false)?,
                b's' => self.add(at, 2)?,
                b'a' => self.add(at, 1)?,
                b't' => {
                    let from = self.marks.pop().ok_or(broken(at, "a mark is missing"))?;
                    self.tuple(from)?;
                }
                0x85..=0x87 => {
                    let len = usize::from(code - 0x84);
                    let from = self.stack.len().checked_sub(len);
                    let open = self.marks.last().copied().unwrap_or(0);
                    let from = from.filter(|from| *from >= open);
                    self.tuple(from.ok_or(broken(at, "a value is missing"))?)?;
                }
                b'X' => {
                    let len = self.number::<4>()?;
                    self.text(len)?;
                }
                0x8c => {
                    let len = self.number::<1>()?;
                    self.text(len)?;
                }
                0x8d => {
                    let len = self.number::<8>()?;
                    self.text(len)?;
                }
                b'h' => {
                    let slot = self.number::<1>()?;
                    self.get(at, slot)?;
                }
                b'j' => {
                    let slot = self.number::<4>()?;
                    self.get(at, slot)?;
                }
                b'q' => {
                    let slot = self.number::<1>()?;
                    self.put(at, slot)?;
                }
                b'r' => {
                    let slot = self.number::<4>()?;
                    self.put(at, slot)?;
                }
                0x94 => self.put(at, self.memo.len() as u64)?,
                b'K' => {
                    let value = self.number::<1>()?;
                    self.push(Val::Int(value.cast_signed()))?;
                }
                b'M' => {
                    let value = self.number::<2>()?;
                    self.push(Val::Int(value.cast_signed()))?;
                }
                b'J' => {
                    let value = i32::from_le_bytes(self.array()?);
                    self.push(Val::Int(i64::from(value)))?;
                }
                0x8a => {
                    let len = self.number::<1>()?;
                    self.long(len)?;
                }
                0x8b => {
                    let len = self.number::<4>()?;
                    self.long(len)?;
                }
                b'G' => {
                    let value = f64::from_be_bytes(self.array()?);
                    self.push(Val::Float(value))?;
                }
                b'N' => self.push(Val::None)?,
                0x88 => self.push(Val::Bool(true))?,
                0x89 => self.push(Val::Bool(false))?,
                0x80 => {
                    let protocol = self.byte()?;
                    if !(2..=5).contains(&protocol) {
                        return Err(broken(at, "its protocol is none of 2 to 5"));
                    }
                }
                0x95 => {
                    self.take(8)?;
                }
                b'.' => {
                    return self
                        .stack
                        .pop()
                        .ok_or(broken(at, "it ends without a value"));
                }
                _ => {
                    return Err(DumpError::Refused {
                        name: name_of(code),
                        code,
                        at,
                    });
                }
            }
        }
    }

    /// Closes what is open where the bytes end. Of what is open within an entry nothing is whole, so it goes.
    fn salvage(&mut self) -> Option<Val> {
        if let Some(within) = self.marks.get(SALVAGED) {
            self.stack.truncate(within.saturating_sub(1));
            self.marks.truncate(SALVAGED);
        }
        // The last thing may have been made, and not been filled yet.
        if let Some(Val::Dict(node)) = self.stack.last()
            && self.tree.items(*node).is_empty()
        {
            self.stack.pop();
        }
        while let Some(from) = self.marks.pop() {
            let from = from.min(self.stack.len());
            match from.checked_sub(1).map(|owner| self.stack[owner]) {
                Some(Val::Dict(node)) => {
                    let whole = (self.stack.len() - from) / 2 * 2;
                    self.stack.truncate(from + whole);
                    self.fill(node, from).ok()?;
                }
                Some(Val::List(node)) => self.fill(node, from).ok()?,
                _ => return None,
            }
        }
        let top = self.stack.first().copied();
        top.filter(|top| matches!(top, Val::Dict(_)))
    }

    fn push(&mut self, val: Val) -> Result<(), DumpError> {
        if self.stack.len() >= limits::DUMP_VALUES {
            return Err(DumpError::TooMuch {
                what: "values",
                most: limits::DUMP_VALUES,
            });
        }
        self.stack.push(val);
        Ok(())
    }

    /// Everything above the last mark goes into the list or dictionary below it.
    fn extend(&mut self, at: usize, dict: bool) -> Result<(), DumpError> {
        let from = self.marks.pop().ok_or(broken(at, "a mark is missing"))?;
        if dict && !self.stack.len().saturating_sub(from).is_multiple_of(2) {
            return Err(broken(at, "a key has no value"));
        }
        self.move_up(at, from, dict)
    }

    fn add(&mut self, at: usize, count: usize) -> Result<(), DumpError> {
        let from = self.stack.len().checked_sub(count);
        self.move_up(
            at,
            from.ok_or(broken(at, "a value is missing"))?,
            count == 2,
        )
    }

    fn move_up(&mut self, at: usize, from: usize, dict: bool) -> Result<(), DumpError> {
        let open = self.marks.last().copied().unwrap_or(0);
        let below = from.checked_sub(1).filter(|below| *below >= open);
        let owner = below.and_then(|below| self.stack.get(below));
        let node = match (owner, dict) {
            (Some(Val::Dict(node)), true) | (Some(Val::List(node)), false) => *node,
            _ => return Err(broken(at, "nothing is there to put a value in")),
        };
        self.fill(node, from)
    }

    fn tuple(&mut self, from: usize) -> Result<(), DumpError> {
        let node = self.tree.node()?;
        self.fill(node, from)?;
        self.push(Val::List(node))
    }

    fn fill(&mut self, node: Node, from: usize) -> Result<(), DumpError> {
        let from = from.min(self.stack.len());
        self.tree.append(node, &self.stack[from..])?;
        self.stack.truncate(from);
        Ok(())
    }

    fn text(&mut self, len: u64) -> Result<(), DumpError> {
        let start = self.at;
        let len = self.take(len)?.len();
        let text = self.tree.text_at(start, len)?;
        self.push(Val::Text(text))
    }

    fn long(&mut self, len: u64) -> Result<(), DumpError> {
        let bytes = self.take(len)?;
        let negative = bytes.last().is_some_and(|top| top & 0x80 != 0);
        let fill = if negative { 0xff } else { 0 };
        let mut value = [fill; 8];
        let kept = bytes.len().min(8);
        value[..kept].copy_from_slice(&bytes[..kept]);
        let value = i64::from_le_bytes(value);
        let whole = bytes[kept..].iter().all(|b| *b == fill) && (value < 0) == negative;
        let value = match (whole, negative) {
            (true, _) => value,
            (false, false) => i64::MAX,
            (false, true) => i64::MIN,
        };
        self.push(Val::Int(value))
    }

    fn put(&mut self, at: usize, slot: u64) -> Result<(), DumpError> {
        let slot = usize::try_from(slot).unwrap_or(usize::MAX);
        // Writers number their slots one after another; a hole may be small.
        if slot >= limits::DUMP_VALUES || slot > self.memo.len() + limits::DUMP_MEMO_HOLE {
            return Err(broken(
                at,
                "it remembers a value under a number out of order",
            ));
        }
        let top = *self.stack.last().ok_or(broken(at, "a value is missing"))?;
        if slot >= self.memo.len() {
            self.memo.resize(slot + 1, None);
        }
        self.memo[slot] = Some(top);
        Ok(())
    }

    fn get(&mut self, at: usize, slot: u64) -> Result<(), DumpError> {
        let slot = usize::try_from(slot).unwrap_or(usize::MAX);
        let known = self.memo.get(slot).copied().flatten();
        self.push(known.ok_or(broken(at, "it recalls a value that it never remembered"))?)
    }

    fn byte(&mut self) -> Result<u8, DumpError> {
        let byte = *self.bytes.get(self.at).ok_or(DumpError::Cut {
            at: self.bytes.len(),
        })?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: u64) -> Result<&[u8], DumpError> {
        let cut = DumpError::Cut {
            at: self.bytes.len(),
        };
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| self.at.checked_add(len));
        let end = end.filter(|end| *end <= self.bytes.len()).ok_or(cut)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DumpError> {
        let bytes = self.take(N as u64)?;
        Ok(*bytes.first_chunk().expect("as many as were asked for"))
    }

    /// A little-endian number of `N` bytes, 8 at most.
    fn number<const N: usize>(&mut self) -> Result<u64, DumpError> {
        let mut value = [0; 8];
        value[..N].copy_from_slice(&self.array::<N>()?);
        Ok(u64::from_le_bytes(value))
    }
}

fn broken(at: usize, why: &'static str) -> DumpError {
    DumpError::Broken { at, why }
}

/// Python's names for what is refused (`pickle.py`).
fn name_of(code: u8) -> &'static str {
    match code {
        b'c' => "GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x81 => "NEWOBJ",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x92 => "NEWOBJ_EX",
        0x93 => "STACK_GLOBAL",
        b'0' => "POP",
        b'1' => "POP_MARK",
        b'2' => "DUP",
        b'F' => "FLOAT",
        b'I' => "INT",
        b'L' => "LONG",
        b'S' => "STRING",
        b'T' => "BINSTRING",
        b'U' => "SHORT_BINSTRING",
        b'V' => "UNICODE",
        b'B' => "BINBYTES",
        b'C' => "SHORT_BINBYTES",
        b'd' => "DICT",
        b'l' => "LIST",
        b'g' => "GET",
        b'p' => "PUT",
        0x8e => "BINBYTES8",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        0x96 => "BYTEARRAY8",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: &[u8]) -> DumpError {
        read(bytes).expect_err("must be refused")
    }

    #[test]
    fn whatever_would_run_code_is_refused_by_name_and_place() {
        // The classic: os.system('id'), in protocol 2 and in protocol 4.
        let classic = error(b"\x80\x02cos\nsystem\nX\x02\0\0\0id\x85R.");
        assert_eq!(
            classic.to_string(),
            "byte 2 is the opcode GLOBAL (0x63), which no Flight Recorder dump has; nothing was executed"
        );
        let newer = error(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.");
        assert!(matches!(
            newer,
            DumpError::Refused {
                name: "STACK_GLOBAL",
                at: 14,
                ..
            }
        ));
        for (bytes, name) in [
            (&b"\x80\x02N}R."[..], "REDUCE"),
            (b"\x80\x02N}b.", "BUILD"),
            (b"\x80\x02Nq\0Q.", "BINPERSID"),
            (b"\x80\x02P1\n.", "PERSID"),
            (b"\x80\x02(ios\nsystem\n.", "INST"),
            (b"\x80\x02\x82\x01.", "EXT1"),
            (b"\x80\x02\x81.", "NEWOBJ"),
        ] {
            assert!(
                matches!(error(bytes), DumpError::Refused { name: found, .. } if found == name)
            );
        }
    }

    #[test]
    fn numbers_of_every_kind() {
        let Values { tree, top, .. } = read(
            b"\x80\x02](K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\x08\0\0\0\0\0\0\0\x80\x8a\x02\xff\0\x8a\x09\0\0\0\0\0\0\0\0\x01\x8a\x00G\x3f\xf0\0\0\0\0\0\0\x88\x89Ne.",
        )
        .unwrap();
        let expected = [
            Val::Int(255),
            Val::Int(65_535),
            Val::Int(-1),
            Val::Int(i64::MIN),
            Val::Int(255),
            Val::Int(i64::MAX),
            Val::Int(0),
            Val::Float(1.0),
            Val::Bool(true),
            Val::Bool(false),
            Val::None,
        ];
        assert_eq!(tree.list(top), expected);
    }

    #[test]
    fn nonsense_is_an_error() {
        for bytes in [
            &b""[..],
            b"\x80",
            b"\x80\x02",
            b"\x80\x01.",
            b"\x80\x02.",
            b"\x80\x02u.",
            b"\x80\x02}(Nu.",
            b"\x80\x02(Ne.",
            b"\x80\x02N(Ne.",
            b"\x80\x02](a.",
            b"\x80\x02N(\x86.",
            b"\x80\x02h\0.",
            b"\x80\x02Nr\xff\xff\xff\xff.",
            b"\x80\x02X\xff\xff\xff\xffx.",
            b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xffx.",
        ] {
            error(bytes);
        }
    }

    #[test]
    fn a_cut_pickle_is_worth_what_is_whole_in_it() {
        // {"v": 1, "entries": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}, as PyTorch lays it out.
        let entry =
            |a: u8, b: u8| [&b"}(X\x01\0\0\0aK"[..], &[a], b"X\x01\0\0\0bK", &[b], b"u"].concat();
        let head = b"\x80\x02}q\0(X\x01\0\0\0vK\x01X\x07\0\0\0entries](";
        let whole = [&head[..], &entry(1, 2), &entry(3, 4), b"eu."].concat();
        let entries = |len: usize| -> Option<usize> {
            let read = read(&whole[..len]).ok()?;
            assert_eq!(read.cut, len < whole.len());
            let list = read.tree.dict(read.top).find_map(|(key, val)| match key {
                Val::Text(key) if read.tree.bytes(key) == b"entries" => Some(val),
                _ => None,
            });
            let list = read.tree.list(list?);
            for entry in list {
                assert_eq!(read.tree.dict(*entry).count(), 2, "cut at {len}");
            }
            Some(list.len())
        };
        assert_eq!(entries(whole.len()), Some(2));
        let first = head.len() + entry(1, 2).len();
        let second = first + entry(3, 4).len();
        for len in 0..whole.len() {
            let expected = match len {
                len if len >= second => 2,
                len if len >= first => 1,
                _ => 0,
            };
            assert_eq!(entries(len).unwrap_or(0), expected, "cut at {len}");
        }
    }

    #[test]
    fn a_value_in_itself_and_open_lists_are_bounded() {
        let Values { tree, top, .. } = read(b"\x80\x02]q\0h\0a.").unwrap();
        assert_eq!(tree.list(top), [top]);
        assert!(matches!(
            error(&b"(".repeat(1 << 20)),
            DumpError::TooMuch { .. }
        ));
        let all: Vec<u8> = b"N".repeat(limits::DUMP_VALUES + 1);
        assert!(matches!(error(&all), DumpError::TooMuch { .. }));
    }
}
