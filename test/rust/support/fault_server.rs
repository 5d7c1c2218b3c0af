// SPDX-License-Identifier: GPL-3.0-or-later
//! A server on loopback that does wrong what can be done wrong: each connection's request gets the
//! deeds of its number. Plain threads and sockets, below HTTP.

#![allow(dead_code, reason = "each test program uses its own part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

/// One thing that the server does to a connection.
#[derive(Clone)]
pub enum Deed {
    Send(Vec<u8>),
    /// The same bytes, one at a time.
    Drip(Vec<u8>),
    /// The same bytes so many times.
    Repeat(Vec<u8>, usize),
    /// Nothing more, until the client goes.
    Stall,
    /// The same bytes again and again, a moment apart, until the client goes.
    Beat(Vec<u8>),
    /// Nothing more, until the client sends something again.
    Read,
    /// Nothing more, until other connections have come as far.
    Meet(Arc<Barrier>),
    /// The connection is torn down, so that what is under way is lost.
    Reset,
}

pub struct FaultServer {
    pub address: SocketAddr,
    /// What the requests were, with their heads.
    requests: Arc<Mutex<Vec<String>>>,
}

impl FaultServer {
    /// Answers request n with the n-th of ANSWERS, and each later one with the last.
    pub fn start(answers: Vec<Vec<Deed>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, seen) = (answers.clone(), Arc::clone(&seen));
                std::thread::spawn(move || {
                    // A client that goes away ends the thread, as it should.
                    let _ = serve(stream, &answers, &seen);
                });
            }
        });
        Self { address, requests }
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("the requests").clone()
    }
}

fn serve(
    mut stream: TcpStream,
    answers: &[Vec<Deed>],
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let request = read_request(&mut stream)?;
    let number = {
        let mut seen = seen.lock().expect("the requests");
        seen.push(request);
        seen.len() - 1
    };
    let deeds = answers.get(number).or(answers.last());
    for deed in deeds.into_iter().flatten() {
        perform(deed, &mut stream)?;
    }
    // Read on until the client is done with it, so that closing is not a reset.
    stream.shutdown(std::net::Shutdown::Write)?;
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    Ok(())
}

fn perform(deed: &Deed, stream: &mut TcpStream) -> std::io::Result<()> {
    match deed {
        Deed::Send(bytes) => stream.write_all(bytes),
        Deed::Drip(bytes) => bytes.iter().try_for_each(|byte| {
            std::thread::sleep(Duration::from_millis(1));
            stream.write_all(&[*byte])
        }),
        Deed::Repeat(bytes, times) => (0..*times).try_for_each(|_| stream.write_all(bytes)),
        Deed::Stall => std::io::copy(stream, &mut std::io::sink()).map(|_| ()),
        Deed::Beat(bytes) => loop {
            std::thread::sleep(Duration::from_millis(50));
            stream.write_all(bytes)?;
        },
        Deed::Read => stream.read(&mut [0; 4096]).map(|_| ()),
        Deed::Meet(others) => {
            others.wait();
            Ok(())
        }
        Deed::Reset => {
            let socket = socket2::SockRef::from(&*stream);
            socket.set_linger(Some(Duration::ZERO))?;
            Err(std::io::ErrorKind::ConnectionReset.into())
        }
    }
}

/// A request with its body; a TLS hello is one that has come as far as it will.
fn read_request(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = stream.read(&mut buffer)?;
        bytes.extend_from_slice(&buffer[..count]);
        let is_tls = bytes.first() == Some(&0x16);
        if count == 0 || is_tls || is_whole(&bytes) {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    bytes.len() - end - 4 >= length.unwrap_or(0)
}
