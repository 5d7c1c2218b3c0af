;;; agent-q-debugger.el --- Tools for errors whose stack is alive  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The debuggers of an image, the user's open ones and our parked errors: the
;; tools that look into them and leave them, and the commands to hand them over.

;;; Code:

(require 'agent-q-operations)
(require 'agent-q-past)

(defconst agent-q-debugger--user-modes
  '((sly sly-db-mode sly-buffer-connection sly-current-thread
         sly-db-condition sly-db-restarts sly-db-level)
    (slime sldb-mode slime-buffer-connection slime-current-thread
           sldb-condition sldb-restarts sldb-level))
  "Of each client: the mode of its debugger, and its variables there.
They hold the connection, thread, condition, restarts and level.")

(defun agent-q-debugger--user-buffers (process)
  "Return the buffers of debuggers that the user has open over PROCESS."
  (cl-remove-if-not
   (lambda (buffer)
     (cl-some (lambda (client)
                (and (eq (nth 1 client) (buffer-local-value 'major-mode buffer))
                     (eq process (buffer-local-value (nth 2 client) buffer))))
              agent-q-debugger--user-modes))
   (buffer-list)))

(defun agent-q-debugger--local (buffer position)
  "Return the value in BUFFER of the variable at POSITION in the table of modes."
  (let ((client (cl-find (buffer-local-value 'major-mode buffer)
                         agent-q-debugger--user-modes :key #'cadr)))
    (and client (buffer-local-value (nth position client) buffer))))

(defun agent-q-debugger--buffer-name (buffer)
  "Return the name that tools have for the user's debugger in BUFFER."
  (format "u%s" (agent-q-debugger--local buffer 3)))

(defun agent-q-debugger-name-of-thread (process thread)
  "Return the name of the debugger that the user has open in THREAD of PROCESS."
  (let ((buffer (cl-find thread (agent-q-debugger--user-buffers process)
                         :key (lambda (buffer) (agent-q-debugger--local buffer 3)))))
    (and buffer (agent-q-debugger--buffer-name buffer))))

(provide 'agent-q-debugger)
;;; agent-q-debugger.el ends here
