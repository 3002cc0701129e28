//! Ranks of several processes meet at rank 0 over TCP and tell each other what they know.
//!
//! ```text
//!  rank 1 ──┐                          every message is one line of JSON, bounded;
//!  rank 2 ──┼──► rank 0 (MASTER_ADDR)  all-gather: each sends its own, rank 0 sends all of them back;
//!  rank 3 ──┘                          who does not answer by the deadline is missing, not waited for
//! ```

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::launcher::Place;
use crate::error::in_words;
use crate::probe::host::within;

/// Bytes of a message.
const MESSAGE: u64 = 8 << 20;
/// Between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(100);
/// A connection says who it is at once, or is none of ours.
const GREETING: Duration = Duration::from_secs(5);
/// What rank 0 is given beyond a deadline to answer.
const SLACK: Duration = Duration::from_secs(5);

/// Opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Greeting {
    unhang: u32,
    rank: u32,
    world: u32,
}

/// Connections among ranks.
#[derive(Debug)]
pub struct Team {
    rank: u32,
    world: u32,
    /// Of rank 0: one a rank, none for itself and for those that are gone. Of others: rank 0's.
    links: Vec<Option<Link>>,
}

#[derive(Debug)]
struct Link {
    reader: BufReader<TcpStream>,
}

/// Why ranks could not meet: words for people.
pub type Alone = String;

impl Team {
    /// Waits until all ranks have come, or the deadline. Rank 0 goes on with those that came; another rank
    /// that cannot reach it gives up.
    ///
    /// # Errors
    /// Why this rank cannot meet anybody.
    pub fn meet(place: &Place, patience: Duration) -> Result<Self, Alone> {
        if place.rank == 0 {
            Self::wait(place, patience)
        } else {
            Self::join(place, patience)
        }
    }

    fn wait(place: &Place, patience: Duration) -> Result<Self, Alone> {
        let until = Instant::now() + patience;
        let listener = listen(place.port).map_err(|error| {
            format!(
                "rank 0 cannot listen at port {}: {}; --port names another",
                place.port,
                in_words(&error)
            )
        })?;
        let mut links: Vec<Option<Link>> = (0..place.world).map(|_| None).collect();
        let mut missing = place.world - 1;
        let greeted = greet(listener, until);
        while missing > 0 {
            let left = until.saturating_duration_since(Instant::now());
            let (greeting, link) = match greeted.recv_timeout(left) {
                Ok(come) => come,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            };
            if greeting.world != place.world {
                return Err(format!(
                    "rank {} was started for {} ranks, rank 0 for {}: the launch lines differ",
                    greeting.rank, greeting.world, place.world
                ));
            }
            match links.get_mut(greeting.rank as usize) {
                Some(free @ None) if greeting.rank > 0 => {
                    *free = Some(link);
                    missing -= 1;
                }
                _ => {
                    return Err(format!(
                        "rank {} came twice: the launcher gave it to two processes",
                        greeting.rank
                    ));
                }
            }
        }
        Ok(Self {
            rank: 0,
            world: place.world,
            links,
        })
    }

    fn join(place: &Place, patience: Duration) -> Result<Self, Alone> {
        let until = Instant::now() + patience;
        let at = |address: &str| format!("rank 0 at {address} port {}", place.port);
        let name = (place.master.clone(), place.port);
        let found = within(patience, move || {
            name.to_socket_addrs()
                .map(Iterator::collect::<Vec<SocketAddr>>)
        });
        let addresses = match found {
            Some(Ok(addresses)) if !addresses.is_empty() => addresses,
            Some(Err(error)) => {
                return Err(format!(
                    "MASTER_ADDR={}: the name has no address: {}",
                    place.master,
                    in_words(&error)
                ));
            }
            _ => {
                return Err(format!(
                    "MASTER_ADDR={}: no answer for its address",
                    place.master
                ));
            }
        };
        let mut failures = Vec::new();
        let mut link = None;
        // Each address that the name has gets its share of the time.
        let share = patience / u32::try_from(addresses.len()).unwrap_or(1).max(1);
        for address in addresses {
            let part = (Instant::now() + share).min(until);
            match connect(address, part) {
                Ok(stream) => {
                    link = Some(Link::new(stream));
                    break;
                }
                Err(why) => failures.push(format!("{} {why}", at(&address.ip().to_string()))),
            }
        }
        let Some(mut link) = link else {
            return Err(format!(
                "{}: rank 0 never came, or its port is blocked",
                failures.join("; ")
            ));
        };
        let greeting = Greeting {
            unhang: 1,
            rank: place.rank,
            world: place.world,
        };
        link.send(&greeting, until)
            .map_err(|why| format!("{}: {why}", at(&place.master)))?;
        Ok(Self {
            rank: place.rank,
            world: place.world,
            links: vec![Some(link)],
        })
    }

    /// Everybody's word, by rank; `None` for those that said nothing in time or are gone.
    ///
    /// # Errors
    /// If rank 0 does not answer.
    pub fn exchange<T: Serialize + DeserializeOwned + Send>(
        &mut self,
        own: T,
        patience: Duration,
    ) -> Result<Vec<Option<T>>, Alone> {
        let until = Instant::now() + patience;
        if self.rank != 0 {
            // Rank 0 waits for the slowest before it answers.
            let until = until + patience + SLACK;
            let link = self
                .links
                .first_mut()
                .and_then(Option::as_mut)
                .ok_or("rank 0 is gone")?;
            let gone = |why: String| format!("rank 0 does not answer: {why}");
            link.send(&own, until).map_err(gone)?;
            let all: Vec<Option<T>> = link.receive(until).map_err(gone)?;
            return Ok(all);
        }
        // All at once: whoever says nothing takes no time from those behind it.
        let mut all: Vec<Option<T>> = vec![Some(own)];
        thread::scope(|scope| {
            let listen = |slot: &'_ mut Option<Link>| {
                let word = slot.as_mut().and_then(|link| link.receive(until).ok());
                if word.is_none() {
                    *slot = None;
                }
                word
            };
            let slots = self.links.iter_mut().skip(1);
            let heard: Vec<_> = slots
                .map(|slot| scope.spawn(move || listen(slot)))
                .collect();
            all.extend(heard.into_iter().map(|word| word.join().ok().flatten()));
        });
        debug_assert_eq!(all.len(), self.world as usize);
        for link in self.links.iter_mut().flatten() {
            // Whoever has gone meanwhile is noticed at the next exchange.
            let _gone = link.send(&all, Instant::now() + SLACK);
        }
        Ok(all)
    }
}

/// Both families where the host has them.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((IpAddr::V6(Ipv6Addr::UNSPECIFIED), port))
        .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
}

/// Accepts and hears who it is, each on a thread of its own, since anybody may connect and say nothing.
fn greet(listener: TcpListener, until: Instant) -> Receiver<(Greeting, Link)> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        if listener.set_nonblocking(true).is_err() {
            return;
        }
        while Instant::now() < until {
            match listener.accept() {
                Ok((stream, _)) => {
                    let sender = sender.clone();
                    thread::spawn(move || {
                        // Inherited from the listener on some systems.
                        let _same = stream.set_nonblocking(false);
                        let mut link = Link::new(stream);
                        let greeting: Result<Greeting, _> = link.receive(Instant::now() + GREETING);
                        if let Ok(greeting) = greeting
                            && greeting.unhang == 1
                        {
                            let _done = sender.send((greeting, link));
                        }
                    });
                }
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    });
    receiver
}

/// Connects, again and again while it is refused, until the deadline. The words say what happened last.
///
/// # Errors
/// `does not accept: connection refused`, `does not answer in 10s`, `cannot be reached: no route to host`.
pub fn connect(address: SocketAddr, until: Instant) -> Result<TcpStream, String> {
    let started = Instant::now();
    let mut last = String::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            if last.is_empty() {
                last = format!("does not answer in {}", seconds(started.elapsed()));
            }
            return Err(last);
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                let _slower = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => {
                let waited = seconds(started.elapsed());
                last = match error.kind() {
                    ErrorKind::ConnectionRefused => {
                        format!("does not accept: connection refused for {waited}")
                    }
                    ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                        format!("does not answer in {waited}")
                    }
                    _ => format!("cannot be reached: {}", in_words(&error)),
                };
                thread::sleep(AGAIN.min(until.saturating_duration_since(Instant::now())));
            }
        }
    }
}

/// Whole seconds, at least one digit behind the point below ten.
#[must_use]
pub fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 9.95 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

impl Link {
    fn new(stream: TcpStream) -> Self {
        Self {
            reader: BufReader::new(stream),
        }
    }

    fn send<T: Serialize>(&mut self, message: &T, until: Instant) -> Result<(), String> {
        let mut line = serde_json::to_vec(message).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let stream = self.reader.get_mut();
        let left = until.saturating_duration_since(Instant::now());
        stream
            .set_write_timeout(Some(left.max(Duration::from_millis(1))))
            .and_then(|()| stream.write_all(&line))
            .map_err(|error| in_words(&error))
    }

    /// One line, by the deadline however slowly it comes.
    fn receive<T: DeserializeOwned>(&mut self, until: Instant) -> Result<T, String> {
        let mut line = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("nothing came in time".to_owned());
            }
            self.reader
                .get_mut()
                .set_read_timeout(Some(left.max(Duration::from_millis(1))))
                .map_err(|error| in_words(&error))?;
            let room = MESSAGE.saturating_sub(line.len() as u64);
            match self
                .reader
                .by_ref()
                .take(room.min(64 << 10))
                .read_until(b'\n', &mut line)
            {
                Ok(0) if room == 0 => return Err("the message is too long".to_owned()),
                Ok(0) => return Err("the connection was closed".to_owned()),
                Ok(_) if line.ends_with(b"\n") => {
                    return serde_json::from_slice(&line)
                        .map_err(|_| "what came is no message".to_owned());
                }
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(in_words(&error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(world: u32) -> Vec<Place> {
        let free = TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .expect("a free port");
        let place = |rank| Place {
            rank,
            world,
            local: None,
            master: "127.0.0.1".to_owned(),
            port: free.port(),
            launcher: "test",
        };
        (0..world).map(place).collect()
    }

    #[test]
    fn all_hear_all() {
        let ranks = places(4).into_iter().map(|place| {
            thread::spawn(move || {
                let mut team = Team::meet(&place, Duration::from_secs(20)).expect("all come");
                team.exchange(place.rank * 10, Duration::from_secs(20))
                    .expect("all speak")
            })
        });
        for rank in ranks.collect::<Vec<_>>() {
            let heard = rank.join().expect("no panic");
            assert_eq!(heard, [Some(0), Some(10), Some(20), Some(30)]);
        }
    }

    #[test]
    fn who_does_not_come_is_missing_and_nobody_waits_on() {
        let started = Instant::now();
        let patience = Duration::from_secs(2);
        let ranks = places(3)
            .into_iter()
            .filter(|place| place.rank != 1)
            .map(|place| {
                thread::spawn(move || {
                    let mut team = Team::meet(&place, patience).expect("rank 0 is there");
                    team.exchange(place.rank, patience).expect("rank 0 answers")
                })
            });
        for rank in ranks.collect::<Vec<_>>() {
            assert_eq!(rank.join().expect("no panic"), [Some(0), None, Some(2)]);
        }
        assert!(started.elapsed() < Duration::from_secs(15));
    }

    #[test]
    fn who_says_nothing_silences_nobody_behind_it() {
        let (over, end) = channel::<()>();
        let end = std::sync::Mutex::new(end);
        let heard = thread::scope(|scope| {
            let ranks = places(4).into_iter().map(|place| {
                let end = &end;
                scope.spawn(move || {
                    let mut team = Team::meet(&place, Duration::from_secs(20)).expect("all come");
                    if place.rank == 1 {
                        // Holds its connection until all the others have heard.
                        let _over = end.lock().expect("one holder").recv();
                        return None;
                    }
                    let heard = team.exchange(place.rank, Duration::from_secs(2));
                    Some(heard.expect("rank 0 answers"))
                })
            });
            let mut ranks: Vec<_> = ranks.collect();
            let silent = ranks.remove(1);
            let heard: Vec<_> = ranks.into_iter().map(|rank| rank.join()).collect();
            drop(over);
            silent.join().expect("no panic");
            heard
        });
        for heard in heard {
            let heard = heard.expect("no panic").expect("it spoke");
            assert_eq!(heard, [Some(0), None, Some(2), Some(3)]);
        }
    }

    #[test]
    fn strangers_are_not_heard() {
        let place = places(1).remove(0);
        let (place, port) = (
            Place {
                world: 2,
                ..place.clone()
            },
            place.port,
        );
        let waiting = thread::spawn(move || Team::meet(&place, Duration::from_secs(2)).map(|_| ()));
        let mut stranger = connect(
            ([127, 0, 0, 1], port).into(),
            Instant::now() + Duration::from_secs(2),
        )
        .expect("it listens");
        stranger
            .write_all(b"GET / HTTP/1.1\r\n\r\n")
            .expect("written");
        assert_eq!(waiting.join().expect("no panic"), Ok(()));
    }

    #[test]
    fn a_port_that_refuses_is_named() {
        let mut place = places(2).remove(1);
        place.rank = 1;
        let why = Team::meet(&place, Duration::from_millis(500))
            .map(|_| ())
            .expect_err("nobody is there");
        assert!(why.contains("does not accept: connection refused"), "{why}");
        assert!(
            why.contains("rank 0 never came, or its port is blocked"),
            "{why}"
        );
    }
}
