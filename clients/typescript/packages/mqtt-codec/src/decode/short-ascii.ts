// Decodes up to 32 ASCII bytes without a call into the platform: `String.fromCharCode` with one argument for each byte. The
// calls are written out because spreading an array takes longer than the call.


import type { ShortAscii } from "./text.js";

const text = String.fromCharCode;

export const shortAscii: ShortAscii = (b, start, end) => {
  const length = end - start;
  return length <= 8 ? upTo8(b, start, length) : length <= 16 ? upTo16(b, start, length) : upTo32(b, start, length);
};

function upTo8(b: Uint8Array, i: number, length: number): string {
  switch (length) {
    case 0:
      return "";
    case 1:
      return text(b[i]!);
    case 2:
      return text(b[i]!, b[i + 1]!);
    case 3:
      return text(b[i]!, b[i + 1]!, b[i + 2]!);
    case 4:
      return text(b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!);
    case 5:
      return text(b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!);
    case 6:
      return text(b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!);
    case 7:
      return text(b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!);
    default:
      return text(b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!);
  }
}

function upTo16(b: Uint8Array, i: number, length: number): string {
  switch (length) {
    case 9:
      return text(b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!);
    case 10:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!,
      );
    case 11:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!,
      );
    case 12:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!,
      );
    case 13:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!,
      );
    case 14:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!,
      );
    case 15:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!,
      );
    default:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!,
      );
  }
}

function upTo32(b: Uint8Array, i: number, length: number): string {
  switch (length) {
    case 17:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
      );
    case 18:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!,
      );
    case 19:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!,
      );
    case 20:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!,
      );
    case 21:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!,
      );
    case 22:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!,
      );
    case 23:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!,
      );
    case 24:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!, b[i + 23]!,
      );
    case 25:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!, b[i + 23]!, b[i + 24]!,
      );
    case 26:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!, b[i + 23]!, b[i + 24]!,
        b[i + 25]!,
      );
    case 27:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!, b[i + 23]!, b[i + 24]!,
        b[i + 25]!, b[i + 26]!,
      );
    case 28:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!, b[i + 23]!, b[i + 24]!,
        b[i + 25]!, b[i + 26]!, b[i + 27]!,
      );
    case 29:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!, b[i + 23]!, b[i + 24]!,
        b[i + 25]!, b[i + 26]!, b[i + 27]!, b[i + 28]!,
      );
    case 30:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!, b[i + 23]!, b[i + 24]!,
        b[i + 25]!, b[i + 26]!, b[i + 27]!, b[i + 28]!, b[i + 29]!,
      );
    case 31:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!, b[i + 23]!, b[i + 24]!,
        b[i + 25]!, b[i + 26]!, b[i + 27]!, b[i + 28]!, b[i + 29]!, b[i + 30]!,
      );
    default:
      return text(
        b[i]!, b[i + 1]!, b[i + 2]!, b[i + 3]!, b[i + 4]!, b[i + 5]!, b[i + 6]!, b[i + 7]!, b[i + 8]!,
        b[i + 9]!, b[i + 10]!, b[i + 11]!, b[i + 12]!, b[i + 13]!, b[i + 14]!, b[i + 15]!, b[i + 16]!,
        b[i + 17]!, b[i + 18]!, b[i + 19]!, b[i + 20]!, b[i + 21]!, b[i + 22]!, b[i + 23]!, b[i + 24]!,
        b[i + 25]!, b[i + 26]!, b[i + 27]!, b[i + 28]!, b[i + 29]!, b[i + 30]!, b[i + 31]!,
      );
  }
}
