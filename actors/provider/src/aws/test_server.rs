//! A server on loopback for tests of this crate, and a check of signatures from the specification alone.

use std::sync::{Arc, Mutex};

use ring::digest::{SHA256, digest};
use ring::hmac;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// A server that answers every request and then closes.
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&ReceivedRequest) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let (noted, answer) = (seen.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (noted, answer) = (noted.clone(), answer.clone());
                tokio::spawn(async move {
                    let Some(request) = read(&mut socket).await else { return };
                    let reply = answer(&request);
                    noted.lock().unwrap().push(request);
                    // A client that has gone away is for the test to notice.
                    let _ = socket.write_all(&reply).await;
                    let _ = socket.shutdown().await;
                });
            }
        });
        Self { url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }
}

/// The bytes of an HTTP response.
pub(crate) fn reply(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n").into_bytes();
    bytes.extend(body);
    bytes
}

async fn read(socket: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let read = socket.read_buf(&mut bytes).await.ok()?;
        if read == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut start = lines.next()?.split(' ');
    let (method, target) = (start.next()?.to_owned(), start.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if socket.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(ReceivedRequest { method, target, headers, body })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// The path as a service other than S3 wants it signed: what is on the wire, encoded once more.
fn encoded_again(path: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().map(|byte| if fits(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Whether a request without a query is signed with this secret for this scope (`region/service`), worked out from
/// the steps of "Signature Version 4".
pub(crate) fn is_signed(
    request: &ReceivedRequest,
    access_key_id: &str,
    secret: &str,
    scope: &str,
) -> Result<(), String> {
    let authorization = request.header("authorization").ok_or("no authorization")?;
    let rest = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or("another algorithm")?;
    let part = |name: &str| {
        let found = rest.split(", ").find_map(|part| part.strip_prefix(&format!("{name}=")));
        found.map(str::to_owned).ok_or(format!("no {name} in {rest}"))
    };
    let (credential, names, signature) = (part("Credential")?, part("SignedHeaders")?, part("Signature")?);
    let date = request.header("x-amz-date").ok_or("no date")?;
    let day = &date[..8];
    let whole_scope = format!("{day}/{scope}/aws4_request");
    if credential != format!("{access_key_id}/{whole_scope}") {
        return Err(format!("the credential is {credential}"));
    }
    for must in ["host", "x-amz-date", "content-type"] {
        if !names.split(';').any(|name| name == must) {
            return Err(format!("{must} is not signed: {names}"));
        }
    }
    let headers: String =
        names.split(';').map(|name| format!("{name}:{}\n", request.header(name).unwrap_or("(absent)"))).collect();
    let body = hex(digest(&SHA256, &request.body).as_ref());
    let path = encoded_again(&request.target);
    let canonical = format!("{}\n{path}\n\n{headers}\n{names}\n{body}", request.method);
    let hash = hex(digest(&SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{whole_scope}\n{hash}");
    let mut key = mac(format!("AWS4{secret}").as_bytes(), day);
    for step in scope.split('/').chain(["aws4_request"]) {
        key = mac(&key, step);
    }
    let expected = hex(&mac(&key, &to_sign));
    if signature == expected { Ok(()) } else { Err(format!("{signature} instead of {expected} for\n{canonical}")) }
}
