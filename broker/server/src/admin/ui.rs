//! The files of the dashboard, embedded in the binary.

use std::sync::LazyLock;

use super::request::Head;
use super::request_context::RequestContext;
use super::response::{Response, Status, not_found};
use super::token::Token;

/// A file of the dashboard.
struct File {
    name: &'static str,
    content_type: &'static str,
    plain: &'static [u8],
    /// The gzip version.
    compressed: &'static [u8],
    /// The ETag, derived from the content.
    tag: LazyLock<String>,
}

macro_rules! file {
    ($name:literal, $content_type:literal) => {
        File {
            name: $name,
            content_type: $content_type,
            plain: include_bytes!(concat!("../../../dashboard/dist/", $name)),
            compressed: include_bytes!(concat!("../../../dashboard/dist/", $name, ".gz")),
            tag: LazyLock::new(|| tag(include_bytes!(concat!("../../../dashboard/dist/", $name)))),
        }
    };
}

static PAGE: File = file!("index.html", "text/html; charset=utf-8");
static FILES: [File; 2] =
    [file!("app.css", "text/css; charset=utf-8"), file!("app.js", "text/javascript; charset=utf-8")];

/// The Content-Security-Policy: load from this origin only, connect to this origin only, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /`.
pub(super) fn page(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    Ok(file_response(&PAGE, call.head))
}

/// `GET /ui/{name}`.
pub(super) fn file(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let file = FILES.iter().find(|file| file.name == call.name(0));
    file.map(|file| file_response(file, call.head)).ok_or_else(|| not_found("no such file"))
}

fn file_response(file: &File, head: &Head) -> Response {
    let is_compressed = takes_gzip(&head.accept_encoding);
    let tag = format!("\"{}{}\"", *file.tag, if is_compressed { "-gzip" } else { "" });
    let is_cached = head.if_none_match.split(',').any(|tag_given| tag_given.trim().trim_start_matches("W/") == tag);
    let answer = match (is_cached, is_compressed) {
        (true, _) => Response::new(Status::NOT_MODIFIED, file.content_type, ""),
        (false, true) => Response::new(Status::OK, file.content_type, file.compressed).with("Content-Encoding", "gzip"),
        (false, false) => Response::new(Status::OK, file.content_type, file.plain),
    };
    answer
        .must_revalidate()
        .with("ETag", &tag)
        .with("Vary", "Accept-Encoding")
        .with("Content-Security-Policy", POLICY)
        .with("Referrer-Policy", "no-referrer")
        .with("Cross-Origin-Opener-Policy", "same-origin")
        .with("Cross-Origin-Embedder-Policy", "require-corp")
}

fn tag(bytes: &[u8]) -> String {
    let mut tag = Token::of_bytes(bytes).to_digest();
    tag.truncate(16);
    tag
}

/// Whether the client accepts gzip.
fn takes_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let is_refused = |part: &str| part.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0));
        is_gzip && !parts.any(is_refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_clients_that_accept_it() {
        for yes in ["gzip", "deflate, GZIP", "br;q=1.0, gzip;q=0.5", "gzip; q=0.001"] {
            assert!(takes_gzip(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip; q=0.0, br", "*", "x-gzip"] {
            assert!(!takes_gzip(no), "{no}");
        }
    }

    #[test]
    fn every_file_exists_in_both_forms() {
        for file in [&PAGE].into_iter().chain(&FILES) {
            assert!(!file.plain.is_empty(), "{}", file.name);
            assert!(file.compressed.starts_with(&[0x1f, 0x8b]), "{}.gz is not made by gzip", file.name);
            // The last four bytes are the length of the uncompressed data (RFC 1952, section 2.3.1).
            let length = file.compressed.last_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            assert_eq!(length, u32::try_from(file.plain.len()).ok(), "{}.gz is of another text", file.name);
        }
    }
}
