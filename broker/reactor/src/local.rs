//! Unix sockets, for connections from programs on this machine. The kernel identifies their user.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net;
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpStream, UnixListener};
use tautwire_engine::Peer;

/// A listening Unix socket. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct LocalListener {
    socket: UnixListener,
    path: PathBuf,
}

impl LocalListener {
    /// Listens at `path`. Replaces a stale socket file on which no program listens.
    ///
    /// # Errors
    /// Another program listens there, the path is not a socket, and system errors.
    pub(crate) fn bind(path: &Path, mode: u32) -> io::Result<LocalListener> {
        remove_stale(path)?;
        let socket = listen(path, mode)?;
        Ok(LocalListener { socket, path: path.to_owned() })
    }

    pub(crate) fn source(&mut self) -> &mut dyn Source {
        &mut self.socket
    }

    /// Accepts the next connection, and identifies its peer.
    ///
    /// Reading, writing and shutdown use the same system calls for all stream families, so the stream is treated as a TCP stream: one loop
    /// serves both, and a socket need not store its family. TCP options must not be set on it.
    ///
    /// # Errors
    /// Errors of `accept`.
    pub(crate) fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, _) = self.socket.accept()?;
        let uid = uid_of_peer(&stream);
        Ok((TcpStream::from(OwnedFd::from(stream)), Peer::Local { uid }))
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        // The next listener there would remove the file anyway.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the socket file of a broker that was not stopped cleanly.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket"));
    }
    match net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens on the socket")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// Binds and listens so that no client can connect before the file has its mode.
#[cfg(target_os = "linux")]
fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    rustix::net::listen(&socket, crate::listener_config::BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(not(target_os = "linux"))]
fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let socket = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn uid_of_peer(stream: &mio::net::UnixStream) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|credentials| credentials.uid.as_raw())
}

#[cfg(not(target_os = "linux"))]
fn uid_of_peer(_: &mio::net::UnixStream) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory for a socket, empty before and after.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let folder = std::env::temp_dir().join(format!("tautwire-local-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).expect("a directory");
            Scratch(folder)
        }

        fn path(&self) -> PathBuf {
            self.0.join("s")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_socket_file_has_its_mode_and_is_removed_with_the_listener() {
        let scratch = Scratch::new("mode");
        for mode in [0o600, 0o666] {
            let listener = LocalListener::bind(&scratch.path(), mode).expect("binds");
            let found = fs::metadata(scratch.path()).expect("the file exists").permissions().mode();
            assert_eq!(found & 0o777, mode);
            drop(listener);
            assert!(!scratch.path().exists());
        }
    }

    #[test]
    fn only_a_stale_socket_is_removed() {
        let scratch = Scratch::new("stale");
        let path = scratch.path();
        drop(net::UnixListener::bind(&path).expect("binds"));
        assert!(path.exists(), "the standard library does not remove the file");
        let listener = LocalListener::bind(&path, 0o600).expect("the socket is stale");
        let error = LocalListener::bind(&path, 0o600).expect_err("the socket is in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        fs::write(&path, "not a socket").expect("writes");
        let error = LocalListener::bind(&path, 0o600).expect_err("a regular file");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(path.exists());
    }
}
