;;; agent-q-image-file.el --- Files that an image names  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An image names files as the places of definitions, and it can name any.  Here
;; a name becomes one of this machine, unless it would have Emacs connect to a
;; host of the image's choice; and the core says which files may be shown
;; unasked, and reads them where it judged them.

;;; Code:

(require 'agent-q-image-connection)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-text)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defvar agent-q-image-file-owner nil
  "The buffer whose project counts, a chat; nil for the current one.")

(defconst agent-q-image-file--remote "\\`/+\\(?:[^/]*:\\|\\[\\)"
  "Regexp for file names that are or may be on another machine.")

(defun agent-q-image-file-remote-p (name)
  "Whether NAME would, or might, have Emacs ask another machine."
  (string-match-p agent-q-image-file--remote name))

(defun agent-q-image-file-local (name)
  "Return NAME, of this machine, as an absolute one; nil if it is on another."
  (let* ((file-name-handler-alist nil)
         (file (and (not (agent-q-image-file-remote-p name))
                    (expand-file-name name))))
    (and file (not (agent-q-image-file-remote-p file)) file)))

(defun agent-q-image-file-here (connection name)
  "Return the name here of NAME, a file of CONNECTION's image, or nil.
One of another machine is what the user's translation of file names made
of it.  Where the image itself names a host, nothing is asked of that."
  (unless (agent-q-image-file-remote-p name)
    (let* ((file (ignore-errors (agent-q-image-ask connection :from-lisp name)))
           (host (and file (file-remote-p file))))
      (cond ((null file) nil)
            ((null host) (agent-q-image-file-local file))
            ((equal host (file-remote-p (agent-q-image-ask connection :from-lisp "/")))
             file)))))

(defun agent-q-image-file--ground ()
  "Return as JSON what is said of the project that counts."
  (with-current-buffer (if (buffer-live-p agent-q-image-file-owner)
                           agent-q-image-file-owner
                         (current-buffer))
    (agent-q-json-serialize (agent-q-project-settings))))

(defvar agent-q-image-file--known nil
  "A list of what `agent-q-image-file--ground' said, and of files and objections.
It is non-nil while places of one reply are looked up.")

(defmacro agent-q-image-file-with-owner (owner &rest body)
  "Evaluate BODY, where the project of the chat OWNER counts.
What was found out of a file holds until its end."
  (declare (indent 1) (debug t))
  `(let ((agent-q-image-file-owner ,owner)
         (agent-q-image-file--known (list nil)))
     ,@body))

(defun agent-q-image-file--known-ground ()
  "Return the JSON text of the project that counts."
  (or (car agent-q-image-file--known)
      (let ((ground (agent-q-image-file--ground)))
        (when agent-q-image-file--known
          (setcar agent-q-image-file--known ground))
        ground)))

(defun agent-q-image-file-objection (file)
  "Return why the text of FILE may not be shown unasked, or nil."
  (let ((known (assoc file (cdr agent-q-image-file--known))))
    (if known
        (cdr known)
      (let ((objection (agent-q-image-file--objection file)))
        (when agent-q-image-file--known
          (push (cons file objection) (cdr agent-q-image-file--known)))
        objection))))

(defun agent-q-image-file--objection (file)
  "Return why the text of FILE may not be shown unasked, or nil; ask the core."
  (cond ((not (fboundp 'agent-q-core-quoting-objection))
         "The core of agent-q is not loaded.")
        ((file-remote-p file)
         (agent-q-core-quoting-objection
          (agent-q-image-file--known-ground)
          (agent-q-text-clean (file-remote-p (file-truename file) 'localname)) t))
        (t (agent-q-core-quoting-objection
            (agent-q-image-file--known-ground) (agent-q-text-clean file) nil))))

(defun agent-q-image-file-insert (file)
  "Insert the text of FILE, which may be shown, in the current empty buffer.
Return nil where it can't be read."
  (if (file-remote-p file)
      (let ((inhibit-message t))
        (insert-file-contents file)
        t)
    (let ((bytes (and (fboundp 'agent-q-core-quoting-text)
                      (agent-q-core-quoting-text (agent-q-image-file--known-ground)
                                                 (agent-q-text-clean file)))))
      (when bytes
        (insert (encode-coding-string bytes 'iso-8859-1 t))
        (decode-coding-inserted-region (point-min) (point-max) file)
        t))))

(provide 'agent-q-image-file)
;;; agent-q-image-file.el ends here
