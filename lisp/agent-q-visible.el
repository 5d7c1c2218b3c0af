;;; agent-q-visible.el --- Spelling out what can't be seen  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Models, servers and images send texts that are shown.  Characters that take
;; no room or change the order of others could make such a text look like
;; another one, so they are spelled out, as \x202e.  Only what is shown is
;; changed, never what is run, saved or sent.

;;; Code:

(require 'subr-x)

(eval-and-compile
  (defconst agent-q-visible-ignorable
    '(#xad #x34f #x61c (#x115f . #x1160) (#x17b4 . #x17b5) (#x180b . #x180f)
      (#x200b . #x200f) (#x2028 . #x202e) (#x2060 . #x206f) #x2800 #x3164
      (#xfe00 . #xfe0f) #xfeff #xffa0 (#xfff0 . #xfffb) (#x1bca0 . #x1bca3)
      (#x1d173 . #x1d17a) (#xe0000 . #xe0fff))
    "Characters that take no room, are blank or reorder others.
Unicode calls most of them ignorable: marks of direction, joiners, selectors
of variants, tags, and fillers.")

  (defconst agent-q-visible--ignorable
    (mapconcat (lambda (range)
                 (if (consp range)
                     (string (car range) ?- (cdr range))
                   (string range)))
               agent-q-visible-ignorable "")
    "The same as a part of a set of a regexp."))

(defconst agent-q-visible--hidden
  (eval-when-compile (concat "[^\n\t[:print:]]\\|[" agent-q-visible--ignorable "]"))
  "Characters to spell out in text of several lines that the user decides on.
`[:print:]' lacks control characters, surrogates and what Unicode doesn't
know.")

(defconst agent-q-visible--hidden-in-name
  (eval-when-compile (concat "[^[:print:]]\\|[" agent-q-visible--ignorable "]"))
  "Characters to spell out in text on one line.")

(defconst agent-q-visible--harmful
  "[\0-\10\13\14\16-\37\177\u0080-\u009f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f]"
  "What has no business in prose.
Joiners, selectors and the mild marks of direction do: in emoji, and in
languages that are written with them.")

(defun agent-q-visible--spelled (character)
  "Return CHARACTER spelled out."
  (pcase character
    (?\n "\\n")
    (?\t "\\t")
    ;; What follows may be a digit.
    (_ (format "\\x%02x" character))))

(defun agent-q-visible--spell (text regexp)
  "Return TEXT with each character that REGEXP matches spelled out.
This takes time in proportion to the length of TEXT, with any content."
  (if (not (string-match-p regexp text))
      text
    ;; In a string, finding a character by its place takes long.  In a buffer
    ;; it does so only after a change.
    (with-temp-buffer
      (insert text)
      (goto-char (point-min))
      (let ((parts nil)
            (from (point)))
        (while (re-search-forward regexp nil t)
          (push (buffer-substring from (1- (point))) parts)
          ;; Without a face: text properties would make this quadratic.
          (push (agent-q-visible--spelled (char-before)) parts)
          (setq from (point)))
        (push (buffer-substring from (point-max)) parts)
        (apply #'concat (nreverse parts))))))

(defun agent-q-visible (text)
  "Return TEXT with its invisible characters spelled out.
The ends of its lines and tabs stay."
  (agent-q-visible--spell text agent-q-visible--hidden))

(defconst agent-q-visible-line-limit 200
  "Most characters of a name that are shown.")

(defun agent-q-visible-line (text &optional limit)
  "Return TEXT, a name, so that it stays within its line.
At most LIMIT characters of it are there, `agent-q-visible-line-limit' unless
given."
  (let ((limit (or limit agent-q-visible-line-limit)))
    (concat (agent-q-visible--spell (substring text 0 (min limit (length text)))
                                    agent-q-visible--hidden-in-name)
            (if (> (length text) limit) "..." ""))))

(defun agent-q-visible-prose (text)
  "Return TEXT, which is only displayed, without characters that could disguise it.
What some languages and emoji need stays."
  (agent-q-visible--spell text agent-q-visible--harmful))

(provide 'agent-q-visible)
;;; agent-q-visible.el ends here
