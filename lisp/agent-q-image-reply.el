;;; agent-q-image-reply.el --- Reading what an image sent  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A reply comes from a program that anybody may have changed, and `read' knows
;; more than replies have: a list that holds itself, or lists without end.  So a
;; text is looked at before it is read, once from its beginning to its end.

;;; Code:

(defconst agent-q-image-reply--depth 64
  "Deepest nesting of lists in a reply.  Ours are less than ten deep.")

(defun agent-q-image-reply-p (text)
  "Whether TEXT only has the syntax that the Common Lisp half writes.
These are lists, strings, integers, keywords, nil and t."
  (with-temp-buffer
    (insert text)
    (goto-char (point-min))
    (let ((depth 0)
          (fine t))
      (while (and fine
                  (progn (skip-chars-forward "a-zA-Z0-9: \n\t-")
                         (not (eobp))))
        (pcase (char-after)
          (?\( (setq depth (1+ depth)
                     fine (<= depth agent-q-image-reply--depth)))
          (?\) (setq depth (1- depth)
                     fine (<= 0 depth)))
          (?\" (setq fine (agent-q-image-reply--skip-string)))
          (_ (setq fine nil)))
        (when fine (forward-char)))
      (and fine (zerop depth)))))

(defun agent-q-image-reply--skip-string ()
  "Go from the start of a string to its last quote; return nil without one."
  (forward-char)
  (skip-chars-forward "^\"\\\\")
  (while (and (eq (char-after) ?\\)
              (memq (char-after (1+ (point))) '(?\" ?\\)))
    (forward-char 2)
    (skip-chars-forward "^\"\\\\"))
  (eq (char-after) ?\"))

(defun agent-q-image-reply-read (text)
  "Return the Lisp data that TEXT, a reply of an image, is.
Signal an error when it is none."
  (unless (and (stringp text) (agent-q-image-reply-p text))
    (error "The image sent a reply that can't be understood"))
  (car (read-from-string text)))

(provide 'agent-q-image-reply)
;;; agent-q-image-reply.el ends here
