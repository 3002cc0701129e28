//! Reads the recorder's JSON (`_dump_nccl_trace_json`, the worker server's `fr_trace_json`) into the
//! same plain values as a pickle.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::DumpError;
use super::tree::{SALVAGED, Tree, Val, Values};

/// Reads one JSON value; of one that is cut, what is whole. How deep it nests is bounded by `serde_json` itself.
pub(super) fn read(bytes: &[u8]) -> Result<Values<'static>, DumpError> {
    let mut reading = Reading::default();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let top = Plain(&mut reading).deserialize(&mut json);
    let (top, cut) = match top {
        Ok(top) => (top, false),
        Err(error) if error.is_eof() => {
            let cut = DumpError::Cut { at: bytes.len() };
            (reading.salvage().ok_or(cut)?, true)
        }
        Err(error) => return Err(DumpError::Json(error.to_string())),
    };
    let tree = reading.tree;
    Ok(Values { tree, top, cut })
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    tree: Tree<'static>,
    /// Lists and objects that have not ended, the outermost first, with what they hold.
    open: Vec<(Val, Vec<Val>)>,
}

impl Reading {
    fn begin(&mut self, dict: bool) -> Result<(), DumpError> {
        let node = self.tree.node()?;
        let val = if dict {
            Val::Dict(node)
        } else {
            Val::List(node)
        };
        self.open.push((val, Vec::new()));
        Ok(())
    }

    fn add(&mut self, item: Val) {
        if let Some((_, items)) = self.open.last_mut() {
            items.push(item);
        }
    }

    fn end(&mut self) -> Result<Val, DumpError> {
        let Some((val, items)) = self.open.pop() else {
            return Ok(Val::None);
        };
        if let Val::Dict(node) | Val::List(node) = val {
            self.tree.append(node, &items)?;
        }
        Ok(val)
    }

    /// Closes what is open where the text ends. Of what is open within an entry nothing is whole, so it goes.
    fn salvage(&mut self) -> Option<Val> {
        self.open.truncate(SALVAGED);
        let mut closed = None;
        while let Some((val, items)) = self.open.last_mut() {
            items.extend(closed);
            if matches!(val, Val::Dict(_)) {
                items.truncate(items.len() / 2 * 2);
            }
            closed = Some(self.end().ok()?);
        }
        closed.filter(|top| matches!(top, Val::Dict(_)))
    }
}

struct Plain<'t>(&'t mut Reading);

impl<'de> DeserializeSeed<'de> for Plain<'_> {
    type Value = Val;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Val, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Plain<'_> {
    type Value = Val;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Val, E> {
        Ok(Val::None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Val, E> {
        Ok(Val::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Val, E> {
        Ok(Val::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Val, E> {
        Ok(Val::Int(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Val, E> {
        Ok(Val::Float(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Val, E> {
        self.0.tree.text(value).map(Val::Text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Val, A::Error> {
        self.0.begin(false).map_err(serde::de::Error::custom)?;
        while let Some(item) = seq.next_element_seed(Plain(self.0))? {
            self.0.add(item);
        }
        self.0.end().map_err(serde::de::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Val, A::Error> {
        self.0.begin(true).map_err(serde::de::Error::custom)?;
        while let Some(key) = map.next_key_seed(Plain(self.0))? {
            self.0.add(key);
            let value = map.next_value_seed(Plain(self.0))?;
            self.0.add(value);
        }
        self.0.end().map_err(serde::de::Error::custom)
    }
}
