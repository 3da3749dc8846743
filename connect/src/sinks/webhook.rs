//! HTTP webhooks: batches as JSON, signed as Standard Webhooks describes.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use ring::{digest, hmac};
use serde_json::{Value, json};

use super::SinkError;
use crate::config::{SinkConfig, SinkKind};
use crate::runtime::Record;
use crate::time::rfc3339;

/// The prefix of a secret in Base64.
const SECRET_PREFIX: &str = "whsec_";

/// An HTTP endpoint as a target.
pub(crate) struct Webhook {
    client: reqwest::Client,
    url: reqwest::Url,
    key: Option<hmac::Key>,
}

impl Webhook {
    /// # Errors
    /// The settings are invalid.
    pub(super) fn new(config: &SinkConfig) -> Result<Webhook, String> {
        let SinkKind::Webhook { url, secret, timeout } = &config.kind else {
            return Err("not a webhook [bug]".into());
        };
        let invalid = |error: &dyn std::fmt::Display| format!("sink {}: {error} [config_value]", config.name);
        let client = reqwest::Client::builder().timeout(*timeout).redirect(reqwest::redirect::Policy::none());
        let key = match secret.as_deref().map(|secret| secret.strip_prefix(SECRET_PREFIX).ok_or(secret)) {
            None => None,
            Some(Err(secret)) => Some(secret.as_bytes().to_vec()),
            Some(Ok(encoded)) => Some(STANDARD.decode(encoded).map_err(|_| invalid(&"the secret is not Base64"))?),
        };
        Ok(Webhook {
            client: client.build().map_err(|error| invalid(&error))?,
            url: url.parse().map_err(|error| invalid(&format!("the url is invalid: {error}")))?,
            key: key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, &key)),
        })
    }

    /// # Errors
    /// Never: any message has a JSON form.
    pub(super) fn encode(&self, record: &mut Record) -> Result<(), String> {
        let message = &record.message;
        let mut object = json!({
            "topic": message.topic(),
            "qos": message.qos() as u8,
            "retain": message.retain(),
            "received_at": rfc3339(record.received_at),
        });
        if let Some(content_type) = message.properties().content_type() {
            object["content_type"] = content_type.into();
        }
        match serde_json::from_slice::<Value>(message.payload()) {
            Ok(value) => object["payload"] = value,
            Err(_) => object["payload_base64"] = STANDARD.encode(message.payload()).into(),
        }
        record.encoded = object.to_string().into_bytes();
        Ok(())
    }

    pub(super) async fn write(&mut self, records: &[Record]) -> Result<(), SinkError> {
        let mut body = b"{\"messages\":[".to_vec();
        for (at, record) in records.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            body.extend(&record.encoded);
        }
        body.extend(b"]}");
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let id = batch_id(&body);
        let mut request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        request = request.header("webhook-id", &id).header("webhook-timestamp", timestamp);
        if let Some(key) = &self.key {
            request = request.header("webhook-signature", signature(key, &id, timestamp, &body));
        }
        let answer = request.body(body).send().await;
        // The text of the error has the address, which can contain credentials.
        let answer = answer.map_err(|error| {
            SinkError::Transient(format!("the webhook does not answer: {} [webhook_unreachable]", error.without_url()))
        })?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            // These are about the content; others are about the address, credentials, or the state of the server.
            status @ (StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::UNPROCESSABLE_ENTITY) => Err(SinkError::Refused(format!(
                "the webhook refuses the message with status {} [webhook_refused]",
                status.as_u16()
            ))),
            status => Err(SinkError::Transient(format!(
                "the webhook answers with status {} [webhook_status]",
                status.as_u16()
            ))),
        }
    }
}

/// The same for each attempt with the same messages.
fn batch_id(body: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, body);
    let hexadecimal: String = hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("msg_{hexadecimal}")
}

fn signature(key: &hmac::Key, id: &str, timestamp: u64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(key);
    context.update(format!("{id}.{timestamp}.").as_bytes());
    context.update(body);
    format!("v1,{}", STANDARD.encode(context.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        // The example of its specification.
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap_or_default();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
