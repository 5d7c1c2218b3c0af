;;; agent-q-text.el --- Text that the core can take  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Strings of Emacs can hold what Unicode can't.  The core takes only Unicode, so
;; such text is cleaned on its way, here and nowhere else.

;;; Code:

(defconst agent-q-text--no-unicode
  ;; A range can't reach from characters to raw bytes.
  "[\x110000-\x3fff7f\x3fff80-\x3fffff\xd800-\xdfff]"
  "Matches what a string of Emacs can hold and Unicode can't.
That are the characters beyond Unicode, raw bytes and surrogates.")

(defun agent-q-text-clean (text)
  "Return TEXT with U+FFFD in place of each character that is not in Unicode.
The core calls this on all text that it could not take."
  ;; Emacs forgets all regexps but those used last, and takes milliseconds to make this one
  ;; ready again, with case even more.  Most texts have nothing but ASCII.
  (let ((case-fold-search nil))
    ;; To look costs a fraction of what to replace nothing costs.
    (if (and (string-match-p "[^\0-\177]" text)
             (string-match-p agent-q-text--no-unicode text))
        (replace-regexp-in-string agent-q-text--no-unicode "\ufffd" text)
      text)))

(provide 'agent-q-text)
;;; agent-q-text.el ends here
