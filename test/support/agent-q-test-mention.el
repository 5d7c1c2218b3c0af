;;; agent-q-test-mention.el --- Tests of mentions  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A chat in a project with a few files, and fetching what a text mentions.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-attach)

(defmacro agent-q-test-mention-in-project (&rest body)
  "Run BODY in a chat of a new project, whose directory is PROJECT."
  (declare (indent 0) (debug t))
  `(let* ((project (file-name-as-directory
                    (make-temp-file (expand-file-name "project" agent-q-test-directory) t)))
          (default-directory project)
          (inhibit-message t))
     (write-region "" nil (expand-file-name "bank.asd" project) nil 'silent)
     (make-directory (expand-file-name "src" project))
     (write-region "(defun a ())\n(defun b ())\n(defun c ())\n" nil
                   (expand-file-name "src/bank.lisp" project) nil 'silent)
     (let ((chat (agent-q-chat-open-here t)))
       (unwind-protect
           (save-window-excursion
             (switch-to-buffer chat)
             ;; That of another test.
             (setq agent-q-session-connection nil)
             (goto-char (point-max))
             ,@body)
         (when (buffer-live-p chat) (kill-buffer chat))))))

(defun agent-q-test-mention-fetch (text)
  "Return what TEXT mentions: a list of excerpts, or a problem."
  (let ((answer 'none))
    (agent-q-attach-mention-fetch-all (agent-q-attach-mention-find text)
                                      (lambda (excerpts problem) (setq answer (or problem excerpts))))
    (agent-q-test-until (not (eq answer 'none)))
    answer))

(defconst agent-q-test-mention-png
  (concat "\211PNG\r\n\032\n"
          "\0\0\0\rIHDR\0\0\2\200\0\0\1\340\10\2\0\0\0\0\0\0\0"
          "\0\0\0\3IDATxyz\0\0\0\0" "\0\0\0\0IEND\256B`\202")
  "The bytes of a picture, 640 × 480, whose pixels nobody looks at.")

(defun agent-q-test-mention-write (name bytes)
  "Write BYTES to the file NAME of the project."
  (let ((coding-system-for-write 'binary))
    (write-region bytes nil (expand-file-name name) nil 'silent)))

(provide 'agent-q-test-mention)
;;; agent-q-test-mention.el ends here
