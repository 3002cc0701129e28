//! Addresses, channels and connects of NCCL.

use super::cursor::Cursor;
use crate::engine::event::{Event, Subsystem, Transport};

/// `eth0:10.0.0.1<0>` → interface, address. IPv6 keeps its zone (`fe80::1%eth0`).
#[must_use]
pub fn split_address(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', text)?;
    let end = memchr::memchr(b'<', &text[colon..])? + colon;
    (colon > 0 && end > colon + 1).then(|| (&text[..colon], &text[colon + 1..end]))
}

/// `Bootstrap : Using eth0:…` (up to 2.23), `Bootstrap: Using eth0:…` (later).
pub(super) fn bootstrap(message: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(message);
    rest.lit(b"Bootstrap")?;
    rest.has(b" ");
    rest.lit(b": Using ")?;
    let (interface, address) = split_address(rest.0)?;
    Some(Event::Address {
        subsystem: Subsystem::Bootstrap,
        interface,
        address,
        further: b"",
    })
}

/// `NET/Socket : Using [0]eth0:…<0> [1]…`, `NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:…<0>`.
pub(super) fn net(message: &[u8]) -> Option<Event<'_>> {
    if let Some(list) = message.strip_prefix(b"NET/Socket : Using ") {
        let mut rest = Cursor(list);
        rest.lit(b"[0]")?;
        let (interface, address) = split_address(rest.0)?;
        rest.until(b">")?;
        return Some(Event::Address {
            subsystem: Subsystem::Net,
            interface,
            address,
            further: rest.0,
        });
    }
    let mut rest = Cursor(message);
    if rest.has(b"NET/IB : Using") {
        rest.until(b"; OOB ")?;
        let (interface, address) = split_address(rest.0)?;
        return Some(Event::Address {
            subsystem: Subsystem::Oob,
            interface,
            address,
            further: b"",
        });
    }
    // 2.22 and later; up to 2.21; the loader's own words.
    const NOT_FOUND: [&[u8]; 3] = [
        b"Could not find",
        b"No plugin found (",
        b": cannot open shared object",
    ];
    let not_found = message.starts_with(b"NET/Plugin")
        && NOT_FOUND
            .iter()
            .any(|words| memchr::memmem::find(message, words).is_some());
    Some(if not_found {
        Event::PluginNotFound
    } else {
        Event::Known
    })
}

/// `Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM`, `… [send] via NET/Socket/0`, or a ring's order.
pub(super) fn channel(message: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(message);
    rest.lit(b"Channel ")?;
    rest.word();
    rest.lit(b" : ")?;
    let Some(from) = end(&mut rest) else {
        return Some(Event::Topology);
    };
    if rest.lit(b" -> ").is_none() {
        return Some(Event::Topology);
    }
    let to = end(&mut rest)?;
    let _ = rest.has(b" [send]") || rest.has(b" [receive]");
    rest.lit(b" via ")?;
    Some(Event::Channel {
        from,
        to,
        transport: transport(rest.0)?,
    })
}

/// `6[0]`: the rank, then the device in brackets.
fn end(rest: &mut Cursor<'_>) -> Option<u32> {
    let rank = rest.dec32()?;
    rest.lit(b"[")?;
    rest.until(b"]")?;
    Some(rank)
}

fn transport(via: &[u8]) -> Option<Transport> {
    if via.starts_with(b"P2P/indirect") {
        return Some(Transport::P2pIndirect);
    }
    if via.starts_with(b"P2P/") {
        return Some(Transport::P2p);
    }
    if via.starts_with(b"SHM") || via.starts_with(b"direct shared memory") {
        return Some(Transport::Shm);
    }
    if via.starts_with(b"NET/") {
        let gdr = memchr::memmem::find(via, b"/GDRDMA").is_some();
        return Some(if gdr {
            Transport::NetGdr
        } else {
            Transport::Net
        });
    }
    via.starts_with(b"COLLNET/").then_some(Transport::CollNet)
}

/// Connects that fail, in the words of every version (`src/misc/socket.cc`):
/// `Call to connect returned R, retrying` (to 2.23) · `F: connect returned R, retrying (a/b) …` (2.24–2.26) ·
/// `F: connect to A returned R, retrying (a/b) after …` and `F: connect to A returned R, exceeded …` (2.27 and later) ·
/// `F: [Cc]onnect to A failed : R` · `Net : Connect to A failed : R`.
pub(super) fn connect(message: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(message);
    if rest.has(b"Call to connect returned ") {
        let reason = rest.until(b", retrying")?;
        return Some(Event::ConnectFailed {
            address: None,
            port: None,
            reason,
            attempt: None,
            retrying: true,
        });
    }
    let at = memchr::memmem::find(message, b"onnect ")?;
    // The word is `connect` or `Connect`, behind the function that prints it.
    if at == 0 || at > 48 || !matches!(message[at - 1], b'c' | b'C') {
        return None;
    }
    rest = Cursor(&message[at + b"onnect ".len()..]);
    let (address, port) = if rest.has(b"to ") {
        let text = rest.word();
        rest.has(b" ");
        let (address, port) = text.split_at(memchr::memchr(b'<', text).unwrap_or(text.len()));
        (Some(address), port_of(port.get(1..).unwrap_or_default()))
    } else {
        (None, None)
    };
    if rest.has(b"failed : ") {
        return Some(Event::ConnectFailed {
            address,
            port,
            reason: rest.0,
            attempt: None,
            retrying: false,
        });
    }
    rest.lit(b"returned ")?;
    let comma = memchr::memchr(b',', rest.0).unwrap_or(rest.0.len());
    let (reason, tail) = rest.0.split_at(comma);
    let mut tail = Cursor(tail);
    if tail.has(b", retrying") {
        let attempt = tail.has(b" (").then(|| tail.dec32()).flatten();
        return Some(Event::ConnectFailed {
            address,
            port,
            reason,
            attempt,
            retrying: true,
        });
    }
    Some(Event::ConnectFailed {
        address,
        port,
        reason,
        attempt: None,
        retrying: false,
    })
}

/// The number in front.
fn port_of(text: &[u8]) -> Option<u16> {
    u16::try_from(Cursor(text).dec32()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(
            split_address(b"eth0:10.0.0.1<0>"),
            Some((&b"eth0"[..], &b"10.0.0.1"[..]))
        );
        assert_eq!(
            split_address(b"ib0:fe80::1%ib0<0> [1]x"),
            Some((&b"ib0"[..], &b"fe80::1%ib0"[..]))
        );
        assert!(split_address(b"nothing").is_none());
        assert!(bootstrap(b"Bootstrap : Using [0]x").is_none());
        let Some(Event::Address { further, .. }) =
            net(b"NET/Socket : Using [0]mgmt0:192.168.10.5<0> [1]data0:10.20.0.1<0>")
        else {
            panic!("an address");
        };
        assert_eq!(further, b" [1]data0:10.20.0.1<0>");
    }

    #[test]
    fn channels_of_every_version() {
        let via = |text: &str| match channel(text.as_bytes()) {
            Some(Event::Channel {
                from,
                to,
                transport,
            }) => Some((from, to, transport)),
            _ => None,
        };
        assert_eq!(
            via("Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM"),
            Some((1, 0, Transport::P2p))
        );
        assert_eq!(
            via("Channel 00 : 1[1000] -> 0[2000] via direct shared memory"),
            Some((1, 0, Transport::Shm))
        );
        assert_eq!(
            via("Channel 01/0 : 6[0] -> 14[0] [send] via NET/Socket/0"),
            Some((6, 14, Transport::Net))
        );
        assert_eq!(
            via("Channel 01/0 : 6[0] -> 14[0] [receive] via NET/IB/0(3)/GDRDMA/Shared"),
            Some((6, 14, Transport::NetGdr))
        );
        assert_eq!(channel(b"Channel 00/24 : 0 1 2"), Some(Event::Topology));
    }

    #[test]
    fn connects_of_every_version() {
        let of = |text: &'static str| match connect(text.as_bytes()) {
            Some(Event::ConnectFailed {
                address,
                port,
                reason,
                attempt,
                retrying,
            }) => Some((
                address.map(|address| (address.to_vec(), port)),
                reason.to_vec(),
                attempt,
                retrying,
            )),
            _ => None,
        };
        assert_eq!(
            of(
                "socketPollConnect: connect to 127.0.0.1<45459> returned Connection refused, retrying (22/34) after sleep for 2200 msec"
            ),
            Some((
                Some((b"127.0.0.1".to_vec(), Some(45_459))),
                b"Connection refused".to_vec(),
                Some(22),
                true
            ))
        );
        assert_eq!(
            of("socketStartConnect: Connect to 10.0.0.1<1> failed : No route to host"),
            Some((
                Some((b"10.0.0.1".to_vec(), Some(1))),
                b"No route to host".to_vec(),
                None,
                false
            ))
        );
        assert_eq!(
            of("Call to connect returned Connection refused, retrying"),
            Some((None, b"Connection refused".to_vec(), None, true))
        );
        assert_eq!(
            of(
                "socketPollConnect: connect returned Connection timed out, retrying (3/34) after sleep for 300 msec"
            ),
            Some((None, b"Connection timed out".to_vec(), Some(3), true))
        );
        assert!(of("Disconnect to nowhere failed").is_none());
    }
}
