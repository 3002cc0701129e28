//! Reads the recorder's JSON (`_dump_nccl_trace_json`, the worker server's `fr_trace_json`) into the
//! same plain values as a pickle.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::DumpError;
use super::tree::{Tree, Val};

/// Reads one JSON value. How deep it nests is bounded by `serde_json` itself.
pub(super) fn read(bytes: &[u8]) -> Result<(Tree<'static>, Val), DumpError> {
    let mut tree = Tree::default();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let top = Plain(&mut tree).deserialize(&mut json);
    match top {
        Ok(top) => Ok((tree, top)),
        Err(error) if error.is_eof() => Err(DumpError::Cut { at: bytes.len() }),
        Err(error) => Err(DumpError::Json(error.to_string())),
    }
}

struct Plain<'t>(&'t mut Tree<'static>);

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
        self.0.text(value).map(Val::Text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Val, A::Error> {
        let node = self.0.node().map_err(serde::de::Error::custom)?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Plain(self.0))? {
            items.push(item);
        }
        self.0
            .append(node, &items)
            .map_err(serde::de::Error::custom)?;
        Ok(Val::List(node))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Val, A::Error> {
        let node = self.0.node().map_err(serde::de::Error::custom)?;
        let mut items = Vec::new();
        while let Some(key) = map.next_key_seed(Plain(self.0))? {
            items.push(key);
            items.push(map.next_value_seed(Plain(self.0))?);
        }
        self.0
            .append(node, &items)
            .map_err(serde::de::Error::custom)?;
        Ok(Val::Dict(node))
    }
}
