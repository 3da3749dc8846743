/** A connection that carries the bytes of MQTT. Made by a {@link TransportFactory}; errors come through its events alone. */
export interface Transport {
  /** Sends bytes. Answers whether their memory may be written to again at once; it may always be changed by the transport. */
  send(bytes: Uint8Array): boolean;
  /** Bytes that were given to {@link send} and have not left this program. */
  readonly bufferedBytes: number;
  /** Ends the connection behind all that was sent. */
  end(): void;
  /** Ends the connection at once. */
  destroy(): void;
  /** Stops to read, so that the sender has to wait; left out where the platform cannot. */
  pause?(): void;
  resume?(): void;
  /** Whether the connection keeps the program running, where the platform can tell. */
  ref?(): void;
  unref?(): void;
}

/** What a transport tells its owner. After `onClose` nothing more. */
export interface TransportEvents {
  onOpen(): void;
  /** Bytes have come. They belong to the receiver: the transport never writes to them again. */
  onData(chunk: Uint8Array): void;
  /** All that was sent has left this program. */
  onDrain(): void;
  /** Once, at the end, also when the connection could not be opened. An `MqttError` is handed on as it is. */
  onClose(error?: unknown): void;
}

/**
 * TLS of `mqtts://` and `wss://` where the program itself does it: Node.js, Deno, Bun. Refused with other addresses. Browsers have
 * their own settings.
 */
export interface TlsOptions {
  /** Certificates of authorities to trust in place of those of the system, as PEM. */
  ca?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined;
  /** Lists of certificates that authorities have revoked (CRL), as PEM. There must be one for each authority of the server's certificate. */
  crl?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined;
  /** The certificate of this client, as PEM. */
  cert?: string | Uint8Array | undefined;
  /** The private key of this client, as PEM. */
  key?: string | Uint8Array | undefined;
  passphrase?: string | undefined;
  /** The name that the server's certificate is checked for, if not the host of the URL. */
  servername?: string | undefined;
  /** Whether a server without a valid certificate is refused. Default: true. False makes TLS useless against attackers. */
  rejectUnauthorized?: boolean | undefined;
  /** Protocols to offer by ALPN, such as `["mqtt"]`. */
  alpnProtocols?: readonly string[] | undefined;
}

/** What a transport may need to know beside the URL. */
export interface TransportOptions {
  tls?: TlsOptions | undefined;
  /** More headers for the opening request of a WebSocket. Browsers do not let programs set any. */
  headers?: Readonly<Record<string, string>> | undefined;
}

/** Begins to open a connection. */
export type TransportFactory = (url: URL, events: TransportEvents, options: TransportOptions) => Transport;
