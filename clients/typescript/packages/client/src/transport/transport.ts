/** A connection that carries MQTT packets. Created by a {@link TransportFactory}, it reports errors only through its events. */
export interface Transport {
  /** Sends bytes, which the transport may modify. Returns whether the caller can reuse their memory at once. */
  send(bytes: Uint8Array): boolean;
  /** The number of bytes that were passed to {@link send} and are still buffered in this process. */
  readonly bufferedBytes: number;
  /** Closes the connection after everything has been sent. */
  end(): void;
  /** Closes the connection at once. */
  destroy(): void;
  /** Pauses reading, so that the sender has to wait. Missing if the platform cannot pause. */
  pause?(): void;
  resume?(): void;
  /** Makes the connection keep the process running, like `ref` of a socket. Missing if the platform does not support it. */
  ref?(): void;
  unref?(): void;
}

/** The events of a transport. None follows `onClose`. */
export interface TransportEvents {
  onOpen(): void;
  /** Bytes have arrived. They belong to the receiver: the transport never writes to them again. */
  onData(chunk: Uint8Array): void;
  /** The send buffer is empty. */
  onDrain(): void;
  /** The connection has ended, or could not be opened. Called once. An `MqttError` is passed on unchanged. */
  onClose(error?: unknown): void;
}

/**
 * TLS options of `mqtts://` and `wss://` in Node.js, Deno and Bun. Refused with other addresses. Browsers have
 * their own settings.
 */
export interface TlsOptions {
  /** The CA certificates to trust instead of those of the system, as PEM. */
  ca?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined;
  /** Certificate revocation lists (CRL), as PEM. There must be one for each authority of the server's certificate. */
  crl?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined;
  /** The certificate of this client, as PEM. */
  cert?: string | Uint8Array | undefined;
  /** The private key of this client, as PEM. */
  key?: string | Uint8Array | undefined;
  passphrase?: string | undefined;
  /** The name that the server's certificate must contain. Default: the host of the URL. */
  servername?: string | undefined;
  /** Whether a server without a valid certificate is refused. Default: true. False gives no protection against attackers. */
  rejectUnauthorized?: boolean | undefined;
  /** The protocols to offer with ALPN, such as `["mqtt"]`. */
  alpnProtocols?: readonly string[] | undefined;
}

/** The options of a transport. */
export interface TransportOptions {
  tls?: TlsOptions | undefined;
  /** Additional HTTP headers of the WebSocket handshake. Browsers do not support them. */
  headers?: Readonly<Record<string, string>> | undefined;
}

/** Starts to open a connection. */
export type TransportFactory = (url: URL, events: TransportEvents, options: TransportOptions) => Transport;
