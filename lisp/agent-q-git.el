;;; agent-q-git.el --- Differences that Git knows of  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What has changed in a working tree, as a text for a model, without private files.  Git is
;; run beside Emacs, and nothing that a repository names as a program is run by it.

;;; Code:

(require 'agent-q-private)
(require 'seq)
(require 'subr-x)

(defconst agent-q-git--most 400000
  "Most characters of a difference that are read.")

(defconst agent-q-git--seconds 30
  "Seconds that Git may take.")

(defun agent-q-git--start (directory arguments function)
  "Run Git with ARGUMENTS in DIRECTORY; FUNCTION gets its end and its output.
The end is t, or a sentence on what went wrong."
  (let* ((buffer (generate-new-buffer " *agent-q git*"))
         (default-directory directory)
         (process-environment (append '("GIT_OPTIONAL_LOCKS=0" "GIT_TERMINAL_PROMPT=0" "LC_ALL=C.UTF-8")
                                      process-environment))
         (timer nil)
         (process
          (make-process
           :name "agent-q-git" :buffer buffer :noquery t :connection-type 'pipe
           :coding 'utf-8-unix
           :command `("git" "-c" "core.fsmonitor=false" "-c" "core.quotePath=false" ,@arguments)
           :sentinel
           (lambda (process _event)
             (unless (process-live-p process)
               (when timer (cancel-timer timer))
               (let ((text (with-current-buffer buffer (buffer-string)))
                     (ended (eq 'exit (process-status process))))
                 (kill-buffer buffer)
                 (funcall function
                          (cond ((process-get process 'agent-q-enough) t)
                                ((process-get process 'agent-q-late)
                                 (format "Git took more than %d s" agent-q-git--seconds))
                                ((and ended (zerop (process-exit-status process))) t)
                                (t (agent-q-git--complaint text)))
                          text)))))))
    (set-process-filter process #'agent-q-git--read)
    (setq timer (run-at-time agent-q-git--seconds nil
                             (lambda ()
                               (when (process-live-p process)
                                 (process-put process 'agent-q-late t)
                                 (kill-process process)))))
    process))

(defun agent-q-git--read (process text)
  "Keep TEXT of PROCESS, which ends when there is enough of it."
  (when (buffer-live-p (process-buffer process))
    (with-current-buffer (process-buffer process)
      (goto-char (point-max))
      (insert text)
      (when (and (< agent-q-git--most (buffer-size)) (process-live-p process))
        (process-put process 'agent-q-enough t)
        (kill-process process)))))

(defun agent-q-git--complaint (text)
  "Return what Git said in TEXT as a short sentence."
  (let ((line (car (last (split-string text "\n" t)))))
    (if (string-match-p "not a git repository" text)
        "This is not a Git repository"
      (concat "Git failed: " (or line "without a word")))))

(defun agent-q-git-diff (directory arguments paths function)
  "Have FUNCTION called with what has changed in the working tree at DIRECTORY.
ARGUMENTS are those of \"git diff\", such as \"HEAD\" or \"--cached\", and PATHS
those it is limited to, or nil.  FUNCTION gets the text, \"\" when nothing has
changed, and the private files that were left out; or nil and a sentence."
  (cond
   ((not (executable-find "git")) (funcall function nil "Git is not installed"))
   ((file-remote-p directory) (funcall function nil "This is on another machine"))
   (t
    (agent-q-git--start
     directory `("diff" "--name-only" "-z" "--no-renames" ,@arguments "--" ,@paths)
     (lambda (end names)
       (if (not (eq end t))
           (funcall function nil end)
         (agent-q-git--without-private directory arguments paths
                                       (split-string names "\0" t) function)))))))

(defun agent-q-git--without-private (directory arguments paths names function)
  "Do the rest of `agent-q-git-diff'; NAMES are the files that changed.
DIRECTORY, ARGUMENTS, PATHS and FUNCTION are as there."
  (agent-q-git--start
   directory '("rev-parse" "--show-toplevel")
   (lambda (end root)
     (if (not (eq end t))
         (funcall function nil end)
       (let* ((root (string-remove-suffix "\n" root))
              (private (seq-filter (lambda (name)
                                     (agent-q-private-objection (expand-file-name name root)))
                                   names)))
         (if (null (seq-difference names private))
             (funcall function "" private)
           (agent-q-git--start
            directory
            `("diff" "--no-ext-diff" "--no-textconv" "--no-color" "--no-renames" ,@arguments "--"
              ,@(or paths '(":/"))
              ,@(mapcar (lambda (name) (concat ":(top,exclude,literal)" name)) private))
            (lambda (end text)
              (if (eq end t)
                  (funcall function text private)
                (funcall function nil end))))))))))

(defun agent-q-git-subjects (directory function)
  "Have FUNCTION called with the subjects of the latest commits at DIRECTORY.
They are the lines of a text, which is empty when there are none."
  (agent-q-git--start directory '("log" "-10" "--no-color" "--format=%s")
                      (lambda (end text)
                        (funcall function (if (eq end t) text "")))))

(provide 'agent-q-git)
;;; agent-q-git.el ends here
