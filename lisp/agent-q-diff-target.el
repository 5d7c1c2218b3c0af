;;; agent-q-diff-target.el --- What an edit under review would change  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the core has planned to make of a file, the live text of that (the visiting
;; buffer's, or else the file's), and noticing when it changes.

;;; Code:

(require 'agent-q-events)
(require 'agent-q-text)
(require 'cl-lib)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(cl-defstruct (agent-q-diff-edit (:constructor agent-q-diff-target--make) (:copier nil))
  "An edit of the file PATH, which is FILE as an absolute name.
BASE, the whole text, is replaced by PROPOSED in a call with ARGUMENTS.  NEW
means that there is no file yet, ONE that only all of it makes sense, which
NOTE then explains.  STAMP is what the target looked like."
  path file base proposed arguments new one note stamp)

(defun agent-q-diff-target-planned (preview arguments)
  "Return the edit in PREVIEW, the core's; ARGUMENTS are those of the call."
  (pcase-let ((`(,path ,file ,original ,modified ,divisible ,note) preview))
    (agent-q-diff-target--make
     :path (agent-q-text-clean path) :file file :arguments arguments
     :base (or original "") :proposed modified :new (null original)
     :one (not divisible) :note (agent-q-text-clean note)
     :stamp (agent-q-diff-target--stamp file))))

(defun agent-q-diff-target--buffer (file)
  "Return the buffer that visits FILE, or nil."
  (get-file-buffer file))

(defun agent-q-diff-target--live (file)
  "Return the text of FILE as it is now, or nil when there is no such file."
  (if-let ((buffer (agent-q-diff-target--buffer file)))
      (with-current-buffer buffer
        (save-restriction
          (widen)
          (buffer-substring-no-properties (point-min) (point-max))))
    (when (file-regular-p file)
      (with-temp-buffer
        (insert-file-contents file)
        (buffer-string)))))

(defun agent-q-diff-target--like (model text)
  "Return TEXT, read from a file, with the line ends that MODEL has.
Emacs hides carriage returns that end all lines of a file."
  (if (and (string-search "\r\n" model)
           (not (string-search "\r\n" text)))
      (string-replace "\n" "\r\n" text)
    text))

(defun agent-q-diff-target--stamp (file)
  "Return a value that is another one once FILE has changed."
  (if-let ((buffer (agent-q-diff-target--buffer file)))
      (cons buffer (buffer-chars-modified-tick buffer))
    (let ((attributes (file-attributes file)))
      (list (file-attribute-modification-time attributes)
            (file-attribute-size attributes)
            (file-attribute-inode-number attributes)))))

(defun agent-q-diff-target-changed-p (edit)
  "Whether the target of EDIT was changed since the review began."
  (not (equal (agent-q-diff-edit-stamp edit)
              (agent-q-diff-target--stamp (agent-q-diff-edit-file edit)))))

(defvar-local agent-q-diff-target--timer nil
  "The timer that has requests about this buffer's file looked at again, or nil.")

(defun agent-q-diff-target-watch (file)
  "Update requests when the buffer of FILE is changed.
A file that is changed on disk the core notices by itself."
  (when-let ((buffer (agent-q-diff-target--buffer file)))
    (with-current-buffer buffer
      (add-hook 'after-change-functions #'agent-q-diff-target--touched nil t))))

(defun agent-q-diff-target--touched (&rest _)
  "Update requests once the user has stopped typing for a moment."
  (unless agent-q-diff-target--timer
    (setq agent-q-diff-target--timer
          (run-at-time 0.5 nil #'agent-q-diff-target--look (current-buffer)))))

(defun agent-q-diff-target--look (buffer)
  "Update requests, as BUFFER was changed.
When none waits any more, stop noticing that."
  (let ((running (agent-q-events-running-p)))
    (when running
      (agent-q-core-files-changed))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (setq agent-q-diff-target--timer nil)
        (when (or (not running) (eql 0 (plist-get (agent-q-core-status) :approvals)))
          (remove-hook 'after-change-functions #'agent-q-diff-target--touched t))))))

(defun agent-q-diff-target-rebase (edit)
  "Return the text that EDIT has to replace in the target as it is now."
  (let ((file (agent-q-diff-edit-file edit)))
    (prog1 (agent-q-diff-target--like (agent-q-diff-edit-base edit)
                                      (or (agent-q-diff-target--live file) ""))
      (setf (agent-q-diff-edit-stamp edit) (agent-q-diff-target--stamp file)))))

(provide 'agent-q-diff-target)
;;; agent-q-diff-target.el ends here
