//! Directories as text: `file NAME SIZE`, then lines `OFFSET HEXADECIMAL` for bytes other than 0.

use std::fs;
use std::path::{Path, PathBuf};

/// Writes the files of a directory.
pub(crate) fn from_text(text: &str, directory: &Path) {
    fs::create_dir_all(directory).expect("can be made");
    let mut open: Option<(PathBuf, Vec<u8>)> = None;
    let put = |open: Option<(PathBuf, Vec<u8>)>| {
        if let Some((path, bytes)) = open {
            fs::write(path, bytes).expect("can be written");
        }
    };
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["file", name, size] => {
                let bytes = vec![0; size.parse().expect("a number")];
                put(open.replace((directory.join(name), bytes)));
            }
            [offset, digits] => {
                let (_, bytes) = open.as_mut().expect("a file comes first");
                let offset: usize = offset.parse().expect("a number");
                for (at, pair) in digits.as_bytes().chunks(2).enumerate() {
                    let pair = std::str::from_utf8(pair).expect("ASCII");
                    bytes[offset + at] = u8::from_str_radix(pair, 16).expect("hexadecimal");
                }
            }
            _ => panic!("{line}"),
        }
    }
    put(open);
}
