;;; agent-q-image-log.el --- Our calls and the clients' event logs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; SLY and SLIME write each message to a log for their own developers, and
;; pretty-print it there, which takes longer than the rest of a call.  Our calls
;; are sent without that; here the replies to them are kept out of it too, and
;; what is sent while a reply is taken.  One that comes together with another
;; message is logged like that.

;;; Code:

(require 'cl-lib)
(require 'agent-q-image-connection)

(defconst agent-q-image-log--reply
  "\\`\\([[:xdigit:]]\\{6\\}\\)(:return (:ok \"(:outcome "
  "How a reply of ours begins on the wire, with its length in bytes.")

(defconst agent-q-image-log--head 40
  "Number of bytes that suffice to recognize a reply of ours.")

(defun agent-q-image-log-without-replies (connection)
  "Keep replies to us over CONNECTION out of its client's log."
  (let ((process (agent-q-image-connection-process connection))
        (logging (agent-q-image-client connection :logging)))
    (unless (process-get process 'agent-q-image-log)
      (process-put process 'agent-q-image-log t)
      (add-function :around (process-filter process)
                    (lambda (filter process bytes)
                      (if (agent-q-image-log--reply-p process bytes)
                          (cl-progv (list logging) '(nil)
                            (funcall filter process bytes))
                        (funcall filter process bytes)))))))

(defun agent-q-image-log--reply-p (process bytes)
  "Whether BYTES, new from PROCESS, complete a reply of ours and nothing else.
The client keeps the beginning of a message in the buffer of PROCESS."
  (with-current-buffer (process-buffer process)
    (let ((head (concat (buffer-substring-no-properties
                         (point-min)
                         (min (point-max) (+ (point-min) agent-q-image-log--head)))
                        (substring bytes 0 (min (length bytes) agent-q-image-log--head)))))
      (and (string-match agent-q-image-log--reply head)
           (= (+ (buffer-size) (length bytes))
              (+ 6 (string-to-number (match-string 1 head) 16)))))))

(provide 'agent-q-image-log)
;;; agent-q-image-log.el ends here
