//! A model service that costs little: raw TCP, keep-alive, responses rendered beforehand. A process of its own, which
//! says its port, answers `connections` and `bodies` on its input, and ends when its input does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use crate::wire::{self, Reply};

/// How many turns are rendered beforehand.
const RENDERED: u64 = 1_100;

struct Replies {
    turns: Vec<Reply>,
    last: Reply,
    accepted: AtomicU64,
    /// How long the request of each turn was.
    bodies: Vec<AtomicU64>,
}

/// Serves until standard input ends.
pub async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
    println!("{}", listener.local_addr().expect("an address").port());
    let replies = Arc::new(Replies {
        turns: (0..RENDERED).map(wire::tool_turn).collect(),
        last: wire::last_turn(),
        accepted: AtomicU64::new(0),
        bodies: (0..RENDERED).map(|_| AtomicU64::new(0)).collect(),
    });
    let house = replies.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            house.accepted.fetch_add(1, Ordering::Relaxed);
            let replies = house.clone();
            tokio::spawn(async move {
                // A client that goes away is no failure of ours.
                let _ = answer(socket, &replies).await;
            });
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match line.as_str() {
            "bodies" => {
                let lengths: Vec<u64> = replies.bodies.iter().map(|length| length.load(Ordering::Relaxed)).collect();
                println!("{lengths:?}");
            }
            _ => println!("{}", replies.accepted.load(Ordering::Relaxed)),
        }
    }
}

async fn answer(mut socket: TcpStream, replies: &Replies) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut held = Vec::with_capacity(8 << 10);
    loop {
        let Some((head, length)) = read_head(&mut socket, &mut held).await? else { return Ok(()) };
        while held.len() < head + length {
            if socket.read_buf(&mut held).await? == 0 {
                return Ok(());
            }
        }
        let body = held.get(head..head + length).unwrap_or_default();
        let (model, turn) = (model(body).to_owned(), turn(body));
        held.drain(..head + length);
        if let Some(seen) = usize::try_from(turn).ok().and_then(|turn| replies.bodies.get(turn)) {
            seen.store(length as u64, Ordering::Relaxed);
        }
        match model.split('-').collect::<Vec<_>>().as_slice() {
            ["tools", turns] if turn < number(turns.as_bytes()) => {
                let turn = usize::try_from(turn).unwrap_or(usize::MAX);
                write(&mut socket, replies.turns.get(turn).unwrap_or(&replies.last)).await?;
            }
            ["paced", pieces, step] => {
                let pieces = u32::try_from(number(pieces.as_bytes())).unwrap_or(u32::MAX);
                let paced = wire::paced(pieces, Duration::from_millis(number(step.as_bytes())));
                write(&mut socket, &paced).await?;
            }
            _ => write(&mut socket, &replies.last).await?,
        }
    }
}

/// Where the body begins, and how long it is.
async fn read_head(socket: &mut TcpStream, held: &mut Vec<u8>) -> std::io::Result<Option<(usize, usize)>> {
    loop {
        if let Some(end) = held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(held.get(..end).unwrap_or_default()).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            return Ok(Some((end + 4, length.unwrap_or(0))));
        }
        if socket.read_buf(held).await? == 0 {
            return Ok(None);
        }
    }
}

async fn write(socket: &mut TcpStream, reply: &Reply) -> std::io::Result<()> {
    match reply {
        Reply::Whole(bytes) => socket.write_all(bytes).await,
        Reply::Paced { first, piece, pieces, step, last } => {
            let begun = Instant::now();
            socket.write_all(first).await?;
            for n in 1..=*pieces {
                sleep_until(begun + *step * n).await;
                socket.write_all(piece).await?;
            }
            socket.write_all(last).await
        }
    }
}

/// The model that a request names; it stands at the start.
fn model(body: &[u8]) -> &str {
    let key = b"\"model\":\"";
    let start = body.windows(key.len()).position(|bytes| bytes == key).map_or(body.len(), |at| at + key.len());
    let rest = body.get(start..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == b'"').unwrap_or(rest.len());
    std::str::from_utf8(rest.get(..end).unwrap_or_default()).unwrap_or_default()
}

/// How many calls were answered before: one more than the last call's number. It stands near the end.
fn turn(body: &[u8]) -> u64 {
    let key = b"\"tool_call_id\":\"call_";
    let last = body.windows(key.len()).rposition(|bytes| bytes == key);
    last.map_or(0, |at| number(body.get(at + key.len()..).unwrap_or_default()) + 1)
}

/// The number that the bytes begin with.
fn number(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_and_the_turn_are_found_in_a_request() {
        let first = br#"{"model":"tools-8","messages":[{"role":"user","content":"x"}]}"#;
        assert_eq!((model(first), turn(first)), ("tools-8", 0));
        let later = br#"{"model":"tools-8","messages":[{"role":"tool","tool_call_id":"call_6","content":"x"},{"role":"tool","tool_call_id":"call_41","content":"x"}]}"#;
        assert_eq!((model(later), turn(later)), ("tools-8", 42));
    }
}
