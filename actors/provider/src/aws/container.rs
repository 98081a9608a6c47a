//! The credentials of a container: ECS, EKS Pod Identity, and what imitates them.

use std::net::IpAddr;

use playhouse_protocol::ProviderError;
use reqwest::{Method, Url};

use super::http::{NEAR, add, plain, send, url};
use super::{Environment, Keys};
use crate::wire::http::is_loopback;

const HOST: &str = "http://169.254.170.2";
const WHENCE: &str = "the container's credential service";

/// The container's credentials; `None` where no variable names a service.
pub(super) async fn credentials(environment: &Environment) -> Result<Option<Keys>, ProviderError> {
    let (full, relative) = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let address = match (environment.get(relative), environment.get(full)) {
        (Some(path), _) => url(&format!("{HOST}/{}", path.trim_start_matches('/')), relative)?,
        (None, Some(address)) => url(&address, full)?,
        (None, None) => return Ok(None),
    };
    if !may_be_asked(&address) {
        let message = format!("{full} must be https, or an address of this machine or its container service");
        return Err(ProviderError::Other { message });
    }
    let mut request = plain(Method::GET, address);
    if let Some(token) = token(environment).await? {
        add(&mut request, "authorization", &token)?;
    }
    let answer = send(request, WHENCE, NEAR).await?;
    if !answer.is_success() {
        return Err(answer.failure(WHENCE, None));
    }
    Keys::issued(&answer.body, WHENCE).map(Some)
}

/// Over plain http a token goes only to this machine and to the two addresses that AWS keeps for this.
fn may_be_asked(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let near: [IpAddr; 3] =
        [[169, 254, 170, 2].into(), [169, 254, 170, 23].into(), [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23].into()];
    match address.scheme() {
        "https" => true,
        "http" => is_loopback(address) || host.parse::<IpAddr>().is_ok_and(|ip| near.contains(&ip)),
        _ => false,
    }
}

/// A file is read anew each time: its token is replaced while the container runs.
async fn token(environment: &Environment) -> Result<Option<String>, ProviderError> {
    let Some(path) = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") else {
        return Ok(environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
    };
    super::chain::read(path.as_ref(), "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_over_plain_http_only_to_this_machine_and_its_container_service() {
        let asked = |address: &str| may_be_asked(&Url::parse(address).unwrap());
        for good in [
            "http://127.0.0.1:1/c",
            "http://localhost/c",
            "http://169.254.170.2/c",
            "http://169.254.170.23/c",
            "http://[fd00:ec2::23]/c",
            "http://[::1]/c",
            "https://example.com/c",
        ] {
            assert!(asked(good), "{good}");
        }
        for bad in ["http://example.com/c", "http://169.254.169.254/c", "http://10.0.0.1/c", "ftp://127.0.0.1/c"] {
            assert!(!asked(bad), "{bad}");
        }
    }
}
