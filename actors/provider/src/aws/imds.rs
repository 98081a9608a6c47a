//! The metadata service of EC2 (IMDSv2: a token first; the older way is not tried).

use playhouse_protocol::ProviderError;
use reqwest::Method;

use super::http::{NEAR, add, plain, send, url};
use super::{Environment, Keys};

const ENDPOINT: &str = "http://169.254.169.254";
const WHENCE: &str = "the metadata service of EC2";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// The credentials of the machine's role; `None` where there is no such service, or it is switched off.
pub(super) async fn credentials(environment: &Environment) -> Result<Option<Keys>, ProviderError> {
    if environment.get("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let given = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let base = given.as_deref().unwrap_or(ENDPOINT).trim_end_matches('/').to_owned();
    let mut ask = plain(Method::PUT, url(&format!("{base}/latest/api/token"), "AWS_EC2_METADATA_SERVICE_ENDPOINT")?);
    add(&mut ask, "x-aws-ec2-metadata-token-ttl-seconds", "21600")?;
    let token = match send(ask, WHENCE, NEAR).await {
        Ok(answer) if answer.is_success() => answer.body,
        Ok(answer) if given.is_some() => return Err(answer.failure(WHENCE, None)),
        Err(error) if given.is_some() => return Err(error),
        // Not on EC2, or not for us: most machines.
        Ok(_) | Err(_) => return Ok(None),
    };
    let get = async |path: &str| {
        let mut request = plain(Method::GET, url(&format!("{base}{path}"), WHENCE)?);
        add(&mut request, "x-aws-ec2-metadata-token", &token)?;
        send(request, WHENCE, NEAR).await
    };
    let roles = get(ROLES).await?;
    if roles.status == 404 {
        // A machine without a role.
        return Ok(None);
    }
    if !roles.is_success() {
        return Err(roles.failure(WHENCE, None));
    }
    let Some(role) = roles.body.lines().map(str::trim).find(|role| !role.is_empty()) else { return Ok(None) };
    let answer = get(&format!("{ROLES}{role}")).await?;
    if !answer.is_success() {
        return Err(answer.failure(WHENCE, None));
    }
    Keys::issued(&answer.body, WHENCE).map(Some)
}
