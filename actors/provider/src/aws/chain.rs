//! The standard chain: where credentials are looked for, in which order.
//!
//! Environment, web identity, shared files, container, EC2. The first that has any is used. One that is set up and
//! fails is an error, not a reason to go on: the next would be somebody else's credentials.

use std::path::Path;

use playhouse_protocol::{ProviderError, Secret};

use super::profile::{Profiles, Section};
use super::sts::{self, Proof, Role};
use super::{Clock, Environment, Keys, container, imds, process, sso};

/// How many profiles may lend to each other.
const DEPTH: usize = 8;

/// The places where credentials are looked for, in turn.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    environment: Environment,
    /// Where STS is asked.
    region: String,
    clock: Clock,
}

impl Chain {
    pub(super) fn new(environment: Environment, region: String, clock: Clock) -> Self {
        Self { environment, region, clock }
    }

    /// Whether asking again would find the same: keys in variables stay as they are.
    pub(super) fn is_fixed(&self) -> bool {
        self.environment.get("AWS_ACCESS_KEY_ID").is_some()
    }

    pub(super) async fn resolve(&self) -> Result<Keys, ProviderError> {
        if let Some(keys) = self.of_environment()? {
            return Ok(keys);
        }
        if let Some(keys) = self.of_web_identity().await? {
            return Ok(keys);
        }
        let environment = self.environment.clone();
        let profiles = tokio::task::spawn_blocking(move || Profiles::read(&environment)).await;
        let profiles = profiles.map_err(|error| other(error.to_string()))?.map_err(other)?;
        match profiles.profile(&profiles.selected) {
            Some(_) => {
                if let Some(keys) = self.of_profile(&profiles, &profiles.selected, DEPTH).await? {
                    return Ok(keys);
                }
            }
            None if profiles.named => return Err(missing(&profiles.selected)),
            None => {}
        }
        if let Some(keys) = container::credentials(&self.environment).await? {
            return Ok(keys);
        }
        if let Some(keys) = imds::credentials(&self.environment).await? {
            return Ok(keys);
        }
        Err(other(
            "no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or a \
             Bedrock API key in AWS_BEARER_TOKEN_BEDROCK",
        ))
    }

    fn of_environment(&self) -> Result<Option<Keys>, ProviderError> {
        let get = |name: &str| self.environment.get(name);
        match (get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")) {
            (Some(access_key_id), Some(secret)) => Ok(Some(Keys {
                access_key_id,
                secret: Secret::new(secret),
                session_token: get("AWS_SESSION_TOKEN").map(Secret::new),
                expires: None,
            })),
            (Some(_), None) => Err(other("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not: set both")),
            (None, _) => Ok(None),
        }
    }

    async fn of_web_identity(&self) -> Result<Option<Keys>, ProviderError> {
        let get = |name: &str| self.environment.get(name);
        let (Some(file), Some(arn)) = (get("AWS_WEB_IDENTITY_TOKEN_FILE"), get("AWS_ROLE_ARN")) else {
            return Ok(None);
        };
        let role = Role { arn, session: get("AWS_ROLE_SESSION_NAME"), ..Role::default() };
        self.with_token(&file, "AWS_WEB_IDENTITY_TOKEN_FILE", &role).await.map(Some)
    }

    /// The file is read anew each time: its token is replaced while the program runs.
    async fn with_token(&self, file: &str, whence: &str, role: &Role) -> Result<Keys, ProviderError> {
        let token = Secret::new(read(file.as_ref(), whence).await?);
        self.assume(role, Proof::Token(&token)).await
    }

    async fn assume(&self, role: &Role, proof: Proof<'_>) -> Result<Keys, ProviderError> {
        sts::assume(&self.environment, &self.region, &self.clock, role, proof).await
    }

    /// The credentials of a profile; `None` where it has none.
    async fn of_profile(&self, profiles: &Profiles, name: &str, depth: usize) -> Result<Option<Keys>, ProviderError> {
        let profile = profiles.profile(name).ok_or_else(|| missing(name))?;
        let Some(depth) = depth.checked_sub(1) else {
            return Err(other(format!("the AWS profile `{name}` takes its credentials from itself, through others")));
        };
        if let Some(arn) = profile.get("role_arn") {
            return self.of_role(profiles, name, profile, arn, depth).await.map(Some);
        }
        if let Some(keys) = static_keys(name, profile)? {
            return Ok(Some(keys));
        }
        if let Some(keys) = sso::credentials(&self.environment, &self.clock, profiles, name, profile).await? {
            return Ok(Some(keys));
        }
        match profile.get("credential_process") {
            Some(command) => process::credentials(command, None).await.map(Some),
            None => Ok(None),
        }
    }

    async fn of_role(
        &self,
        profiles: &Profiles,
        name: &str,
        profile: &Section,
        arn: &str,
        depth: usize,
    ) -> Result<Keys, ProviderError> {
        let get = |key: &str| profile.get(key).map(str::to_owned);
        let role = Role {
            arn: arn.to_owned(),
            session: get("role_session_name"),
            external_id: get("external_id"),
            seconds: get("duration_seconds"),
        };
        let broken = |what: &str| other(format!("the AWS profile `{name}` {what}"));
        if let Some(file) = profile.get("web_identity_token_file") {
            return self.with_token(file, "web_identity_token_file", &role).await;
        }
        if profile.get("mfa_serial").is_some() {
            return Err(broken(
                "asks for a second factor, which cannot be given here: use `aws sso login` or \
                AWS_SESSION_TOKEN",
            ));
        }
        let source = match (profile.get("source_profile"), profile.get("credential_source")) {
            (Some(own), _) if own == name => static_keys(name, profile)?,
            (Some(source), _) => Box::pin(self.of_profile(profiles, source, depth)).await?,
            (None, Some("Environment")) => self.of_environment()?,
            (None, Some("EcsContainer")) => container::credentials(&self.environment).await?,
            (None, Some("Ec2InstanceMetadata")) => imds::credentials(&self.environment).await?,
            (None, Some(_)) => return Err(broken("has an unknown credential_source")),
            (None, None) => return Err(broken("has a role_arn, and neither source_profile nor credential_source")),
        };
        let source = source.ok_or_else(|| broken("has a role_arn, and its source has no credentials"))?;
        self.assume(&role, Proof::Keys(&source)).await
    }
}

fn static_keys(name: &str, profile: &Section) -> Result<Option<Keys>, ProviderError> {
    match (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")) {
        (Some(id), Some(secret)) => Ok(Some(Keys {
            access_key_id: id.to_owned(),
            secret: Secret::new(secret),
            session_token: profile.get("aws_session_token").map(Secret::new),
            expires: None,
        })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(other(format!(
            "the AWS profile `{name}` has one of aws_access_key_id and aws_secret_access_key: it needs both"
        ))),
    }
}

fn missing(name: &str) -> ProviderError {
    other(format!(
        "there is no AWS profile `{name}`: correct AWS_PROFILE, or make it with `aws configure --profile {name}`"
    ))
}

fn other(message: impl Into<String>) -> ProviderError {
    ProviderError::Other { message: message.into() }
}

/// A small file that a setting names.
pub(super) async fn read(path: &Path, whence: &str) -> Result<String, ProviderError> {
    let text = tokio::fs::read_to_string(path)
        .await
        .map_err(|error| other(format!("the file {} of {whence} cannot be read: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}
