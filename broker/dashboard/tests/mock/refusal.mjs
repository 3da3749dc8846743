/** An error response in the broker's format. */
export function refuse(status, code, message, errors) {
  return { status, body: { code, message, ...(errors === undefined ? {} : { errors }) } };
}
