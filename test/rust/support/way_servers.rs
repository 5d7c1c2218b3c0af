// SPDX-License-Identifier: GPL-3.0-or-later
//! What may be on the way to a host: proxies of each kind, and servers with certificates of each kind.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const SAID: &str =
    "{\"choices\": [{\"message\": {\"content\": \"ok\"}, \"finish_reason\": \"stop\"}]}";

/// A whole answer, with HEADERS.
pub fn answer(headers: &str) -> Vec<u8> {
    let length = SAID.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n{headers}\r\n{SAID}").into_bytes()
}

/// A port at which each connection is SERVED.
pub fn listening(serve: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            // A client that goes away is no failure of the test.
            std::thread::spawn(move || serve(connection));
        }
    });
    port
}

/// A port at which nothing listens.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// The head of what STREAM asks, read to its end and no further.
fn head(stream: &mut impl Read) -> std::io::Result<String> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&bytes).to_lowercase())
}

/// The file NAME among the certificates of the tests.
pub fn certificate(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/test/fixtures/certificates");
    PathBuf::from(folder).join(name)
}

/// A server with this certificate, which answers "ok".
pub fn tls_server(name: &str) -> u16 {
    let chain = CertificateDer::pem_file_iter(certificate(name)).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain.map(Result::unwrap).collect(), key)
        .expect("a key of the certificate");
    let config = Arc::new(config);
    listening(move |connection| {
        let tls = rustls::ServerConnection::new(Arc::clone(&config)).expect("a connection");
        let mut stream = rustls::StreamOwned::new(tls, connection);
        while head(&mut stream).is_ok() {
            stream.write_all(&answer(""))?;
        }
        Ok(())
    })
}

/// Passes on what comes from either side.
fn pipe(one: TcpStream, other: TcpStream) -> std::io::Result<()> {
    let (mut from, mut to) = (one.try_clone()?, other.try_clone()?);
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        to.shutdown(Shutdown::Write)
    });
    let (mut from, mut to) = (other, one);
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = back.join();
    Ok(())
}

/// A proxy to which each name means TARGET of this machine, and the first lines of what it was asked.
pub struct TestProxy {
    pub port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl TestProxy {
    /// One that lets in "me" with the password "a@b", or anybody.
    pub fn http(target: u16, guarded: bool) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let port = listening(move |mut stream| {
            let head = head(&mut stream)?;
            // The base64 of "me:a@b", in lower case.
            if guarded && !head.contains("proxy-authorization: basic bwu6yubi\r\n") {
                return stream.write_all(
                    b"HTTP/1.1 407 Who are you?\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                );
            }
            let line = head.lines().next().unwrap_or_default().to_owned();
            let mut host = TcpStream::connect(("127.0.0.1", target))?;
            match line.starts_with("connect") {
                true => stream.write_all(b"HTTP/1.1 200 Fine\r\n\r\n")?,
                false => host.write_all(head.as_bytes())?,
            }
            seen.lock().expect("what was asked").push(line);
            pipe(stream, host)
        });
        Self { port, asked }
    }

    /// One that speaks SOCKS 5 and wants this user and password, if any.
    pub fn socks(target: u16, user: Option<&'static [u8]>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let port = listening(move |mut stream| {
            let some = |stream: &mut TcpStream, count: u8| {
                let mut bytes = vec![0; usize::from(count)];
                stream.read_exact(&mut bytes).map(|()| bytes)
            };
            let count = some(&mut stream, 2)?[1];
            let methods = some(&mut stream, count)?;
            if let Some(user) = user {
                if !methods.contains(&2) {
                    return stream.write_all(&[5, 0xff]);
                }
                stream.write_all(&[5, 2])?;
                let name = some(&mut stream, 2)?[1];
                let mut given = some(&mut stream, name)?;
                let password = some(&mut stream, 1)?[0];
                given.push(b':');
                given.extend(some(&mut stream, password)?);
                stream.write_all(&[1, u8::from(given != user)])?;
            } else {
                stream.write_all(&[5, 0])?;
            }
            let kind = some(&mut stream, 4)?[3];
            let length = match kind {
                1 => 4,
                3 => some(&mut stream, 1)?[0],
                _ => 16,
            };
            let host = some(&mut stream, length)?;
            some(&mut stream, 2)?;
            seen.lock().expect("what was asked").push(match kind {
                3 => String::from_utf8_lossy(&host).into_owned(),
                _ => "an address".to_owned(),
            });
            let host = TcpStream::connect(("127.0.0.1", target))?;
            stream.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0])?;
            pipe(stream, host)
        });
        Self { port, asked }
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("what was asked").clone()
    }
}
