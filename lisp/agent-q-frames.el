;;; agent-q-frames.el --- Frames and restarts of an error, as text  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What models are shown of a stack and of the ways out of it.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(defun agent-q-frames-restarts (restarts)
  "Return RESTARTS, lists of a name and a description, as text, or nil."
  (and restarts
       (concat "Restarts: "
               (mapconcat (lambda (restart)
                            (format "%s (%s)" (string-trim (car restart) "\\*")
                                    (or (cadr restart) "")))
                          restarts ", "))))

(defconst agent-q-frames--machinery
  (concat "\\`(+\\(?:\\(?:FLET\\|LABELS\\|LAMBDA\\) [^\"]*\\)?"
          "\\(?:S\\(?:WANK\\|LYNK\\)\\|SB-INT:SIMPLE-EVAL\\|SB-IMPL::%SIMPLE-EVAL"
          "\\|EVAL \\|SB-KERNEL:INTERNAL-ERROR\\|\"foreign\\|SB-THREAD::\\|INVOKE-DEBUGGER \\)")
  "What the frames of clients and of evaluation begin with.")

(defun agent-q-frames-text (frames)
  "Return FRAMES, texts, without those of the machinery, as text, or nil."
  (let ((shown (cl-remove-if (lambda (frame)
                               (string-match-p agent-q-frames--machinery frame))
                             frames)))
    (and shown
         (concat "Backtrace, innermost first:\n"
                 (mapconcat (lambda (frame) (concat "  " frame))
                            (seq-take shown 15) "\n")))))

(provide 'agent-q-frames)
;;; agent-q-frames.el ends here
