/** An answer that is no success, as the broker words it. */
export function refuse(status, code, message, errors) {
  return { status, body: { code, message, ...(errors === undefined ? {} : { errors }) } };
}
